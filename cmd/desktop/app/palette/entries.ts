/** Entries of the command palette: asks, pages, VMs with their views and actions, rules and settings. */
import { api, type VmListed } from "../../api/routes.ts";
import { leavesOf } from "../../page/settings/tree.ts";
import { act, asks, settings, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { hrefOf, VM_VIEWS } from "../route.ts";
import type { Entry } from "./find.ts";

/** Pages in the order of an empty search. */
const PAGES = [
  "overview",
  "findings",
  "search",
  "inbox",
  "sessions",
  "costs",
  "agents",
  "images",
  "rules",
  "detections",
  "mcp",
  "credentials",
  "settings",
  "status",
] as const;
/** Actions of a VM that need no confirmation. */
const ACTIONS = ["start", "resume", "pause", "suspend", "stop"] as const;

/** A rule and its profile. */
export interface KnownRule {
  profile: string;
  id: string;
}

/** Reads the rules that profiles define themselves. */
export async function readRules(): Promise<KnownRule[]> {
  const { profiles } = await api.profiles();
  const lists = await Promise.all(
    profiles.map(async ({ id }) => ({ id, rules: (await api.rules(id)).rules })),
  );
  return lists.flatMap(({ id, rules }) =>
    rules.filter(({ layer }) => layer === "profile").map((rule) => ({ profile: id, id: rule.id }))
  );
}

/** Entries in the order of an empty search. */
export function entriesOf(rules: KnownRule[]): Entry[] {
  const kinds = text.palette;
  return [
    ...asks.value.map(({ ask_id, subject }) => ({
      id: `ask ${ask_id}`,
      kind: kinds.ask,
      label: subject,
      run: goTo(`${hrefOf("inbox")}?ask=${ask_id}`),
    })),
    ...PAGES.map((name) => ({
      id: `page ${name}`,
      kind: kinds.page,
      label: text.page[name],
      run: goTo(hrefOf(name)),
    })),
    ...vms.value.map(({ id, name, profile_id, agent }) => ({
      id: `vm ${id}`,
      kind: kinds.vm,
      label: name,
      words: `${profile_id} ${agent ?? ""}`,
      run: goTo(hrefOf("vm", name)),
    })),
    ...vms.value.flatMap((vm) => [...viewsOf(vm), ...actionsOf(vm)]),
    ...rules.map(({ profile, id }) => ({
      id: `rule ${profile} ${id}`,
      kind: kinds.rule,
      label: id,
      words: profile,
      run: goTo(`${hrefOf("rules")}?profile=${encodeURIComponent(profile)}&rule=${encodeURIComponent(id)}`),
    })),
    ...[...leavesOf(settings.value?.tree ?? [])].map(({ id, name }) => ({
      id: `setting ${id}`,
      kind: kinds.setting,
      label: name,
      words: id,
      run: goTo(`${hrefOf("settings")}?q=${encodeURIComponent(id)}`),
    })),
  ];
}

/** Runs an entry that opens a page. */
const goTo = (href: string) => () => void (location.hash = href);

function viewsOf({ id, name }: VmListed): Entry[] {
  return VM_VIEWS.map((view) => ({
    id: `view ${id} ${view}`,
    kind: text.palette.vm,
    label: `${name}: ${text.vm[view]}`,
    run: goTo(hrefOf("vm", name, view)),
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
