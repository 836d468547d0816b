/** Everything that the command palette leads to. */
import { api, type VmListed } from "../../api/routes.ts";
import { leavesOf } from "../../page/settings/tree.ts";
import { act, asks, settings, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { hrefOf, VM_VIEWS } from "../route.ts";
import type { Entry } from "./find.ts";

const PAGES = [
  "overview",
  "findings",
  "search",
  "inbox",
  "sessions",
  "agents",
  "images",
  "rules",
  "detections",
  "mcp",
  "credentials",
  "settings",
  "status",
] as const;
/** Actions without a question. */
const ACTIONS = ["start", "resume", "pause", "suspend", "stop"] as const;

/** A rule, with the profile that has it. */
export interface KnownRule {
  profile: string;
  id: string;
}

/** Rules of all profiles, for the palette. */
export async function readRules(): Promise<KnownRule[]> {
  const { profiles } = await api.profiles();
  const lists = await Promise.all(
    profiles.map(async ({ id }) => ({ id, rules: (await api.rules(id)).rules })),
  );
  return lists.flatMap(({ id, rules }) =>
    rules.filter(({ layer }) => layer === "profile").map((rule) => ({ profile: id, id: rule.id }))
  );
}

/** Entries in the order of an empty search: places first, then the rest. */
export function entriesOf(rules: KnownRule[]): Entry[] {
  const words = text.palette;
  const lead = (href: string) => () => void (location.hash = href);
  return [
    ...asks.value.map(({ ask_id, subject }) => ({
      id: `ask ${ask_id}`,
      kind: words.ask,
      label: subject,
      run: lead(`${hrefOf("inbox")}?ask=${ask_id}`),
    })),
    ...PAGES.map((name) => ({
      id: `page ${name}`,
      kind: words.page,
      label: text.page[name],
      run: lead(hrefOf(name)),
    })),
    ...vms.value.map(({ id, name, profile_id, agent }) => ({
      id: `vm ${id}`,
      kind: words.vm,
      label: name,
      words: `${profile_id} ${agent ?? ""}`,
      run: lead(hrefOf("vm", name)),
    })),
    ...vms.value.flatMap((vm) => [...viewsOf(vm, lead), ...actionsOf(vm)]),
    ...rules.map(({ profile, id }) => ({
      id: `rule ${profile} ${id}`,
      kind: words.rule,
      label: id,
      words: profile,
      run: lead(`${hrefOf("rules")}?profile=${encodeURIComponent(profile)}&rule=${encodeURIComponent(id)}`),
    })),
    ...[...leavesOf(settings.value?.tree ?? [])].map(({ id, name }) => ({
      id: `setting ${id}`,
      kind: words.setting,
      label: name,
      words: id,
      run: lead(`${hrefOf("settings")}?q=${encodeURIComponent(id)}`),
    })),
  ];
}

function viewsOf({ id, name }: VmListed, lead: (href: string) => () => void): Entry[] {
  return VM_VIEWS.map((view) => ({
    id: `view ${id} ${view}`,
    kind: text.palette.vm,
    label: `${name}: ${text.vm[view]}`,
    run: lead(hrefOf("vm", name, view)),
  }));
}

function actionsOf({ id, name, available_actions }: VmListed): Entry[] {
  const words = text.sessions;
  return ACTIONS.filter((action) => available_actions.includes(action)).map((action) => ({
    id: `action ${id} ${action}`,
    kind: text.palette.action,
    label: words.actionOn(words.action[action], name),
    run: () => act(() => api.actOnVm(id, action), words.done[action](name)),
  }));
}
