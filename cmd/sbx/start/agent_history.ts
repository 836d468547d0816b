/**
 * Conversations of an agent between two VMs: kept when a VM is deleted, and given
 * to the next one of its folder.
 */
import type { VmInfo } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { ifFound, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Agent, historyPaths } from "../../../lib/config/profile/mod.ts";
import {
  findHistory,
  historyBytes,
  keepHistory,
  type KeptHistory,
  listHistories,
  NO_HISTORY,
  PACK_HISTORY,
  removeHistory,
  UNPACK_HISTORY,
} from "../../../lib/setup/mod.ts";
import { VmGuest } from "../files/repository.ts";
import { isYes } from "../confirm.ts";
import { lastWords, table, usageError } from "../output.ts";
import { formatTime } from "../vm/work_text.ts";
import { agentProfiles, type AgentVm } from "./agent_start.ts";

/** Longest packing and unpacking in the guest, in `s`. */
const PACK_SECONDS = 300;

export const HISTORY: Command = {
  name: "agent history",
  usage: "[AGENT DIR --remove] [--json]",
  summary: "list the conversations that sbx delete --keep-history has kept",
  options: [{ name: "remove", about: "remove the ones of this agent and folder" }, JSON_OPTION],
  words: { min: 0, max: 2 },
  completes: ["agents", "folders"],
  examples: ["sbx agent history", "sbx agent history claude ~/project --remove"],
  run: history,
};

/**
 * Keeps the conversations of a VM's agent on this host.
 *
 * @throws {SbxError} `agent.no_history`: it has none; `agent.history_limit`;
 * `vm.wrong_state`: it does not run
 */
export async function keepConversations(client: Client, vm: string): Promise<KeptHistory> {
  const info = await client.json<VmInfo>("GET", `/vms/${segment(vm)}/info`);
  const id = info.agent ?? info.profile_id;
  const profile = (await agentProfiles()).find((each) => each.id === id);
  const paths = profile ? historyPaths(profile.agent) : [];
  if (!info.folder || paths.length === 0) {
    throw new SbxError("agent.no_history", `"${vm}" has no agent whose conversations could be kept`, {
      hint: "leave out --keep-history",
    });
  }
  if (info.status !== "Running") {
    throw new SbxError("vm.wrong_state", `"${vm}" is ${info.status}: its conversations cannot be read`, {
      hint: `sbx ${info.status === "Stopped" || info.status === "Defunct" ? "start" : "resume"} ${vm}`,
    });
  }
  const guest = new VmGuest(client, vm);
  const file = archivePath();
  const { code, stderr } = await guest.run(
    ["sh", "-c", PACK_HISTORY, "sh", "", file, ...paths],
    PACK_SECONDS,
  );
  if (code === NO_HISTORY) {
    throw new SbxError("agent.no_history", `${profile!.name} has no conversation in "${vm}"`, {
      hint: "leave out --keep-history",
    });
  }
  if (code !== 0) {
    throw failed(
      `cannot pack the conversations of "${vm}"`,
      stderr,
      "leave out --keep-history to delete it without them",
    );
  }
  const { body } = await guest.download(file);
  const { dir, place } = info.folder;
  return await keepHistory(home(), { agent: id, dir, place, vm: info.name }, body);
}

/**
 * The kept conversations that a new VM gets: with `--continue`, or after a question.
 * Without a terminal a line names them.
 *
 * @returns undefined: none
 */
export function chooseHistory(kept: KeptHistory | undefined, args: Arguments): KeptHistory | undefined {
  if (!kept || args.has("continue")) return kept;
  if (args.has("new")) return undefined;
  const text = `conversations of ${kept.vm} are kept (${formatTime(kept.kept_at)}, ${
    formatBytes(kept.size)
  })`;
  if (!Deno.stdin.isTerminal()) {
    note(`sbx: ${text}; --continue takes them into the new VM`);
    return undefined;
  }
  return isYes(`${text}: take them into the new VM?`) ? kept : undefined;
}

/** Puts kept conversations into a new VM. */
export async function putConversations(
  client: Client,
  { name, place }: AgentVm,
  { kept, agent }: { kept: KeptHistory; agent: Agent },
): Promise<void> {
  const guest = new VmGuest(client, name);
  const file = archivePath();
  await guest.upload(file, historyBytes(home(), kept));
  const { code, stderr } = await guest.run(
    ["sh", "-c", UNPACK_HISTORY, "sh", "", file, ...historyPaths(agent)],
    PACK_SECONDS,
  );
  if (code !== 0) {
    throw failed(`cannot unpack the conversations in "${name}"`, stderr, "--new starts without them");
  }
  note(`${name}: has the conversations of ${kept.vm} (${formatTime(kept.kept_at)})`);
  if (place !== kept.place) {
    note(`sbx: they are about ${kept.place}: the agent may not find them at ${place}`);
  }
}

/** Path in the guest of one archive. */
function archivePath(): string {
  return `/var/tmp/sbx-history-${crypto.randomUUID()}.tar`;
}

function failed(what: string, stderr: string, hint: string): SbxError {
  return new SbxError("agent.failed", `${what}: ${lastWords(stderr) || "tar failed"}`, { hint });
}

async function history(args: Arguments): Promise<number> {
  const [agent, dir] = args.words;
  if (!args.has("remove")) return await list(args, agent, dir);
  if (dir === undefined) throw usageError(HISTORY, "--remove needs AGENT and DIR");
  return await remove(args, agent, await folderOf(dir));
}

/** All histories, or the one of an agent and a folder. */
async function list(args: Arguments, agent?: string, dir?: string): Promise<number> {
  const found = agent === undefined
    ? await listHistories(home())
    : [await findHistory(home(), agent, await folderOf(dir ?? "."))];
  const histories = found.filter((each) => each !== undefined);
  if (args.has("json")) await printJson({ histories });
  else await print(formatHistories(histories, agent === undefined ? "" : ` of ${agent} for ${dir ?? "."}`));
  return 0;
}

/** @param of words for the ones that were asked for; empty: all */
export function formatHistories(
  histories: readonly Pick<KeptHistory, "agent" | "dir" | "vm" | "kept_at" | "size">[],
  of: string,
): string {
  if (histories.length === 0) {
    return `no conversations${of} are kept yet: sbx delete NAME --keep-history keeps them`;
  }
  const rows = histories.map(({ agent, dir, vm, kept_at, size }) => [
    agent,
    dir,
    vm,
    formatTime(kept_at),
    formatBytes(size),
  ]);
  return table(["AGENT", "FOLDER", "VM", "KEPT", "SIZE"], rows);
}

async function remove(args: Arguments, agent: string, dir: string): Promise<number> {
  if (!await removeHistory(home(), agent, dir)) {
    throw new SbxError("agent.no_history", `no conversations of ${agent} are kept for ${dir}`, {
      hint: "sbx agent history lists them",
    });
  }
  if (args.has("json")) await printJson({ agent, dir });
  else await print(`removed the conversations of ${agent} for ${dir}`);
  return 0;
}

/** The real path of a folder; the path as given where it is gone, since its conversations outlive it. */
async function folderOf(dir: string): Promise<string> {
  return await ifFound(Deno.realPath(dir)) ?? dir;
}
