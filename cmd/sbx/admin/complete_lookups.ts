/** Looked-up words of completion: names and ids that belong to this user. */
import type {
  AskList,
  CredentialList,
  DeletedVm,
  DetectionList,
  FileList,
  JobList,
  McpServerList,
  McpToolList,
  ProviderList,
  RepositoryStates,
  RuleChanges,
  SessionList,
  SnapshotList,
  TemplateList,
  VmSummary,
} from "../../../lib/client/api/mod.ts";
import type { Lookup } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import type { EventCommon } from "../../../lib/event/mod.ts";
import { segment } from "../../../lib/client/mod.ts";

/** A word that completes. */
export interface Candidate {
  word: string;
  about?: string;
}

/** The means of a lookup. */
export interface Place {
  /** words of the command before this one */
  words: readonly string[];
  /** the word that is completed, as far as it is typed */
  last: string;
  /** value of an option of the call, by its long name */
  option(name: string): string | undefined;
  /** Asks the service. @throws {Error} none runs: completion never starts one */
  get<T>(path: string): Promise<T>;
}

/** Most events that are offered, refused ones first. */
const EVENTS_MAX = 20;
/** Greatest age of the other events, in `ms`. */
const RECENT_MS = 3_600_000;
/** Profile of `sbx mcp` without `--profile`. */
const MCP_PROFILE = "code";

/** Folders at the top of a guest in which people look for files. */
const TOP = ["etc", "home", "mnt", "opt", "root", "srv", "tmp", "usr", "var", "workspace"];

export const LOOKUPS: Readonly<Record<Lookup, (place: Place) => Promise<Candidate[]>>> = {
  vms,
  "vm paths": vmPaths,
  async "vm folders"({ words: [name], last, get }) {
    const paths = name === undefined ? [] : await pathsIn({ name, path: last, get });
    return paths.filter(({ about }) => about === "directory");
  },
  async "deleted vms"({ get }) {
    const { vms } = await get<{ vms: DeletedVm[] }>("/vms/deleted");
    return vms.map(({ name, deleted_at }) => ({ word: name, about: `deleted ${deleted_at}` }));
  },
  jobs: (place) => jobs(place),
  "running jobs": (place) => jobs(place, (state) => state !== "Ended"),
  async agents() {
    const { agentProfiles } = await import("../start/agent_start.ts");
    return (await agentProfiles()).map(({ id, name }) => ({ word: id, about: name }));
  },
  async profiles() {
    const { listProfiles } = await import("../../../lib/config/profile/mod.ts");
    return (await listProfiles(home())).map((each) => ({
      word: each.id,
      about: "profile" in each ? each.profile.description : "has an error",
    }));
  },
  async settings() {
    return (await settings()).map(({ id, description }) => ({ word: id, about: description }));
  },
  async "setting values"({ words: [id] }) {
    const leaf = (await settings()).find((each) => each.id === id);
    if (leaf?.type === "bool") return ["true", "false"].map((word) => ({ word }));
    return (leaf?.metadata.choices ?? []).map((word) => ({ word }));
  },
  async images() {
    const { listEnvironments } = await import("../../../lib/release/environment/mod.ts");
    const images = await listEnvironments(home());
    return images.map(({ reference, arch }) => ({ word: shortReference(reference), about: arch }));
  },
  snapshots,
  async points(place) {
    const { words: [vm], get } = place;
    const [{ states }, taken] = await Promise.all([
      get<RepositoryStates>(`/vms/${segment(vm)}/states`),
      snapshots(place),
    ]);
    const kept = states.map(({ number, at_unix_ms, reason }) => ({
      word: String(number),
      about: `${new Date(at_unix_ms).toISOString()}, ${reason}`,
    }));
    return [...kept.reverse(), ...taken];
  },
  async services({ words: [vm], get }) {
    const { jobs } = await get<JobList>(`/vms/${segment(vm)}/services`);
    return jobs.flatMap(({ service, state }) => service ? [{ word: service.name, about: state }] : []);
  },
  async templates({ get }) {
    const { templates } = await get<TemplateList>("/templates");
    return templates.map(({ id, created_at }) => ({ word: id, about: created_at }));
  },
  async providers({ get }) {
    const { providers } = await get<ProviderList>("/credentials/providers");
    return providers.map(({ id, title }) => ({ word: id, about: title }));
  },
  async credentials({ get }) {
    const { credentials } = await get<CredentialList>("/credentials/list");
    return credentials.map(({ ref, provider, label }) => ({
      word: ref,
      about: [provider, label].filter(Boolean).join(", "),
    }));
  },
  async labels({ get }) {
    const { credentials } = await get<CredentialList>("/credentials/list");
    return credentials.flatMap(({ provider, label }) => label ? [{ word: `${provider}=${label}` }] : []);
  },
  async sessions(place) {
    const { sessions } = await place.get<SessionList>("/sessions/list");
    return [
      ...await vms(place),
      ...sessions.map(({ id, name, created_at }) => ({ word: id, about: `${name}, ${created_at}` })),
    ];
  },
  async asks({ get }) {
    const { asks } = await get<AskList>("/asks");
    return asks.map(({ ask_id, event_type, rule_id }) => ({
      word: ask_id,
      about: `${event_type}, ${rule_id}`,
    }));
  },
  async events({ get }) {
    const { sessions: [newest] } = await get<SessionList>("/sessions/list");
    if (!newest) return [];
    const find = async (filter: string) => {
      const path = `/sessions/${segment(newest.id)}/events?${filter}&limit=1000`;
      const { events } = await get<{ events: { common: EventCommon }[] }>(path);
      return events.slice(-EVENTS_MAX).reverse().map(({ common }) => common);
    };
    const refused = await find("denied=true");
    const others = refused.length < EVENTS_MAX ? await find(`since=${Date.now() - RECENT_MS}`) : [];
    const ids = new Set(refused.map(({ event_id }) => event_id));
    return [...refused, ...others.filter(({ event_id }) => !ids.has(event_id))].slice(0, EVENTS_MAX)
      .map(({ event_id, event_type }) => ({
        word: event_id,
        about: `${event_type}${ids.has(event_id) ? ", refused" : ""}`,
      }));
  },
  async "mcp servers"({ option, get }) {
    const { servers } = await get<McpServerList>(`/profiles/${profileOf(option)}/mcp/servers/list`);
    return servers.map(({ name }) => ({ word: name }));
  },
  async "mcp tools"({ option, get }) {
    const profile = profileOf(option);
    const { servers } = await get<McpServerList>(`/profiles/${profile}/mcp/servers/list`);
    const lists = await Promise.all(
      servers.map(({ name }) =>
        get<McpToolList>(`/profiles/${profile}/mcp/servers/${segment(name)}/tools/list`)
          .catch((): McpToolList => ({ tools: [], vm: "" }))
      ),
    );
    return lists.flatMap(({ tools }) => tools).map(({ namespaced_name, description }) => ({
      word: namespaced_name,
      about: description,
    }));
  },
  async packs({ get }) {
    const { rules } = await get<DetectionList>("/detection");
    const added = rules.filter(({ scope }) => scope === "runtime").map(({ pack_id }) => pack_id);
    return [...new Set(added)].map((word) => ({ word }));
  },
  async "rule changes"({ get }) {
    const { changes } = await get<RuleChanges>("/enforcement/changes");
    return changes.map(({ change_id, at, kind }) => ({ word: change_id, about: `${kind}, ${at}` }));
  },
  async questions() {
    const { QUESTIONS } = await import("../../../lib/fleet/question/mod.ts");
    return QUESTIONS.map(({ name, about }) => ({ word: name, about }));
  },
};

async function snapshots({ words: [vm], get }: Place): Promise<Candidate[]> {
  const { snapshots } = await get<SnapshotList>(`/vms/${segment(vm)}/snapshots/list`);
  return snapshots.map(({ id, created_unix_ms, label }) => ({
    word: id,
    about: [new Date(created_unix_ms).toISOString(), label].filter(Boolean).join(", "),
  }));
}

async function vms({ get }: Place): Promise<Candidate[]> {
  const { vms } = await get<{ vms: VmSummary[] }>("/vms/list");
  return vms.map(({ name, status, profile_id }) => ({ word: name, about: `${status}, ${profile_id}` }));
}

/** `demo:`, and then the paths in that VM. */
async function vmPaths(place: Place): Promise<Candidate[]> {
  const { last, get } = place;
  const [, name, path] = /^([A-Za-z0-9][A-Za-z0-9_-]*):([^]*)$/.exec(last) ?? [];
  if (name === undefined) return (await vms(place)).map(({ word, about }) => ({ word: `${word}:`, about }));
  return (await pathsIn({ name, path, get })).map(({ word, about }) => ({ word: `${name}:${word}`, about }));
}

/** Paths in a VM that complete one; a VM that is suspended is not woken. */
async function pathsIn(
  { name, path, get }: { name: string; path: string; get: Place["get"] },
): Promise<Candidate[]> {
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  const { vms: all } = await get<{ vms: VmSummary[] }>("/vms/list");
  const vm = all.find((each) => each.name === name);
  // Paths below /workspace are on this host.
  if (!vm || folder.startsWith("/") && vm.status !== "Running") return [];
  // The service lists no "/" itself.
  if (folder === "/") return TOP.map((word) => ({ word: `/${word}/`, about: "directory" }));
  const query = new URLSearchParams({ path: folder === "" ? "." : folder, depth: "1" });
  const { entries } = await get<FileList>(`/vms/${segment(name)}/files/list?${query}`);
  return entries.map(({ path, type }) => ({
    word: `${folder}${path.slice(path.lastIndexOf("/") + 1)}${type === "directory" ? "/" : ""}`,
    about: type,
  }));
}

async function jobs({ get }: Place, isWanted: (state: string) => boolean = () => true): Promise<Candidate[]> {
  const { jobs } = await get<JobList>("/jobs");
  return jobs.filter(({ state }) => isWanted(state)).map(({ id, state }) => ({ word: id, about: state }));
}

/** Settings that people see. */
async function settings() {
  const { loadDefinitions } = await import("../../../lib/config/settings/mod.ts");
  return (await loadDefinitions()).leaves.filter(({ metadata }) => !metadata.hidden);
}

function profileOf(option: Place["option"]): string {
  return segment(option("profile") ?? MCP_PROFILE, "profile");
}

/** A reference as people write it. */
function shortReference(reference: string): string {
  return reference.replace(/^docker\.io\/(library\/)?/, "");
}
