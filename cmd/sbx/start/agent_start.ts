/** The VM of an agent: its image, its key, its files, and the folder that it works on. */
import { basename, resolve } from "node:path";
import type {
  CreateRequest,
  CredentialList,
  CredentialView,
  VmInfo,
  VmSummary,
} from "../../../lib/client/api/mod.ts";
import type { Arguments } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { type AgentProfile, isAgent, listAgents } from "../../../lib/config/agent/mod.ts";
import { agentFiles, type AgentModel, loadProfile, type Profile } from "../../../lib/config/profile/mod.ts";
import { completeVm, diskOf, sizeOf, waitUntilRunning } from "../vm/new_vm.ts";
import { lastWords } from "../output.ts";
import { notesOf } from "./agent_notes.ts";
import { fromProjects, meetRequests } from "../files/project_file.ts";
import { bringFolder, bringLiveFolder, formatBrought, formatLive, VmGuest } from "../files/repository.ts";
import { type ChosenSetup, putSetup } from "./agent_setup_put.ts";

export type { AgentProfile };

/** A VM in which an agent can start. */
export interface AgentVm {
  id: string;
  name: string;
  /** folder of the work, in the guest */
  place: string;
}

/** Words after `sbx agent` that name no agent, and that no agent may have as its id. */
export const SUBCOMMANDS = ["run", "list", "attach", "add", "sign", "remove", "setup", "history"];

/** Most characters of a VM's name, without the number after it. */
const NAME_MAX = 40;

/** Profiles with an `[agent]`, by id. */
export async function agentProfiles(): Promise<AgentProfile[]> {
  return (await listAgents(home())).map(({ profile }) => profile);
}

/**
 * @param command whose word the agent is, for its hint
 * @throws {SbxError} `agent.not_found`, and the errors of {@linkcode loadProfile}
 */
export async function agentProfile(id: string, command = "sbx agent"): Promise<AgentProfile> {
  const profile = await loadProfile(home(), id).catch((error) => {
    if (error instanceof SbxError && error.code === "profile.not_found") return undefined;
    throw error;
  });
  if (profile && isAgent(profile)) return profile;
  const ids = (await agentProfiles()).map(({ id }) => id);
  // "sbx agent WORD" treats any word that is no subcommand as an agent.
  const words = command === "sbx agent" ? [...ids, ...SUBCOMMANDS] : ids;
  const near = didYouMean(id, words, (word) => `${command} ${word}`);
  throw new SbxError("agent.not_found", `there is no agent "${id}"`, {
    hint: near ??
      `agents are ${ids.join(", ")}; docs/guides/agents.md says how to add one`,
  });
}

/**
 * The same agent with the rules and packages of another profile.
 *
 * @param id of that profile; absent: its own
 * @throws {SbxError} `agent.other_profile`: it has another agent, or none
 */
export async function agentIn(own: AgentProfile, id: string | undefined): Promise<AgentProfile> {
  if (id === undefined) return own;
  const profile = await loadProfile(home(), id);
  if (isAgent(profile) && profile.agent.command[0] === own.agent.command[0]) return profile;
  const has = isAgent(profile) ? `another agent (${profile.agent.command[0]})` : "no agent";
  throw new SbxError("agent.other_profile", `the profile "${id}" has ${has}, not ${own.name}`, {
    hint: `copy that agent's profile and change the copy: sbx profile copy ${own.id} NEW`,
  });
}

/** Kinds of credentials in words. */
const KINDS = { key: "API keys", token: "OAuth tokens", subscription: "logins of subscriptions" } as const;

/**
 * Requires a key of the agent's provider in the store.
 *
 * @param chosen labels of the keys that the VM is to use, by provider
 * @returns the credential for the VM, the last one added; undefined where the agent needs none
 * @throws {SbxError} `agent.no_key`; `agent.wrong_key`: the VM would get one of a
 * kind that the agent does not read
 */
export async function requireKey(
  client: Client,
  { agent: { provider, reads }, name, credentials: { labels } }: AgentProfile,
  chosen: Readonly<Record<string, string>> = {},
): Promise<CredentialView | undefined> {
  if (!provider) return undefined;
  const { credentials } = await client.json<CredentialList>("GET", "/credentials/list");
  const usable = credentials.filter((credential) =>
    credential.provider === provider && credential.source === "added" && !credential.decoy &&
    credential.revoked_at === undefined
  );
  const own = Object.hasOwn(chosen, provider) ? chosen[provider] : undefined;
  const left = Object.hasOwn(labels, provider) ? labels[provider] : undefined;
  const added = usable.findLast(({ label }) =>
    (own === undefined || label === own) &&
    (left === undefined || label !== undefined && left.includes(label))
  );
  if (added && reads.includes(added.kind)) return added;
  if (added) {
    const which = own === undefined ? "the one added last" : `"${own}"`;
    throw new SbxError(
      "agent.wrong_key",
      `${name} does not read ${
        KINDS[added.kind]
      }, and the credential of ${provider} for it is one (${which})`,
      { hint: keyHint(provider, usable.filter(({ kind }) => reads.includes(kind))) },
    );
  }
  const wanted = own === undefined ? `a key of ${provider}` : `a key of ${provider} with the label "${own}"`;
  throw new SbxError("agent.no_key", `${name} needs ${wanted}, and none is stored`, {
    hint: own !== undefined && usable.length > 0
      ? `its keys have the labels: ${usable.map(({ label }) => label ?? "(none)").join(", ")}`
      : `sbx credentials add ${provider}: it stays on this host, and the VM gets a ref`,
  });
}

/** The hint where no key is one that the agent reads. @param others keys of the kinds that it reads */
function keyHint(provider: string, others: readonly CredentialView[]): string {
  const label = others.findLast(({ label }) => label !== undefined)?.label;
  return label === undefined
    ? `add an API key: sbx credentials add ${provider}`
    : `name another one: --credential ${label}`;
}

/**
 * Creates the agent's VM, brings the folder in, and writes the agent's files.
 *
 * @param what.key of the agent's provider
 * @param what.env over the profile's variables
 * @param what.services of this host that it gets; default all of its profile's
 */
export async function createVm(
  client: Client,
  { profile, dir, key, model, services, env, credentials, setup, complete, ...what }: {
    profile: AgentProfile;
    dir: string;
    key?: CredentialView;
    model?: AgentModel;
    services?: string[];
    /** name of the VM; default `--name`, else a free one */
    name?: string;
    env?: Record<string, string>;
    /** the person's own configuration of the agent */
    setup?: ChosenSetup;
    /** last step of its preparation; a failure deletes the VM again */
    complete?: (vm: AgentVm) => Promise<void>;
  } & Pick<CreateRequest, "credentials">,
  args: Arguments,
): Promise<AgentVm> {
  const name = what.name ?? args.text("name") ?? await freeName(client, profile.id, dir);
  const { cpus, ram_mb } = sizeOf(args);
  const asked = await fromProjects([dir], args);
  const json = {
    name,
    profile_id: profile.id,
    cpus: cpus ?? asked.cpus,
    ram_mb: ram_mb ?? asked.ram_mb,
    persistent: true,
    agent: profile.id,
    disk_gb: diskOf(args) ?? asked.disk_gb,
    env: { ...asked.env, ...profile.agent.env, ...env },
    ...asked.project && { project: asked.project },
    ...asked.folders && { folders: asked.folders },
    ...services && { host_services: services },
    ...credentials && { credentials },
    ...args.has("live") && { live: { dir: resolve(dir), with_secrets: args.has("with-secrets") } },
  };
  const created = await client.json<VmSummary>("POST", "/vms/create", { json });
  await waitUntilRunning(client, created);
  const place = await completeVm(client, created, async () => {
    const place = await bring(client, name, dir, args);
    const files = {
      "/root/.gitconfig": gitConfig(profile),
      ...notesOf(profile.agent),
      ...agentFiles(profile.agent, {
        place,
        ref: key?.ref,
        isSubscription: key?.kind === "subscription",
        model,
      }),
    };
    if (!setup) await writeFiles(new VmGuest(client, name), files);
    else await putSetup(client, name, await setup.setup.render({ place, forced: files, ...setup }));
    await complete?.({ id: created.id, name, place });
    return place;
  });
  await meetRequests(client, created, asked.later);
  return { id: created.id, name, place };
}

/** Brings the folder in, or its repository if the VM shares the folder. @returns the folder in the guest */
async function bring(client: Client, name: string, dir: string, args: Arguments): Promise<string> {
  if (!args.has("live")) {
    const brought = await bringFolder(client, name, dir, args, { place: args.text("to") });
    note(`${name}: ${formatBrought(brought)}`);
    return brought.place;
  }
  await bringLiveFolder(client, name);
  const { live } = await new VmGuest(client, name).info();
  note(`${name}: ${formatLive(live!)}`);
  return live!.place;
}

/** Author of the agent's commits, if neither the repository nor the person's git config names one. */
function gitConfig({ id, name }: Profile): string {
  return `[user]\n\tname = ${name}\n\temail = ${id}@sbx.invalid\n`;
}

async function writeFiles(guest: VmGuest, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"';
    const { code, stderr } = await guest.run(["sh", "-c", script, "sh", path, text], 60);
    if (code !== 0) {
      throw new SbxError("agent.failed", `cannot write ${path} in "${guest.name}": ${lastWords(stderr)}`);
    }
  }
}

/** `claude-project`, or the first free name with a number after it. */
export async function freeName(client: Client, id: string, dir: string): Promise<string> {
  const folder = basename(resolve(dir)).replaceAll(/[^A-Za-z0-9_-]+/g, "-").replaceAll(/^-+|-+$/g, "");
  const name = [id, folder].filter(Boolean).join("-").slice(0, NAME_MAX);
  const { vms } = await client.json<{ vms: VmInfo[] }>("GET", "/vms/list");
  const taken = new Set(vms.map(({ name }) => name));
  let free = name;
  for (let number = 2; taken.has(free); number++) free = `${name}-${number}`;
  return free;
}
