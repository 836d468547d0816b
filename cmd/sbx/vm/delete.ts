import type { DeleteResult } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { quoteWord } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { isYes } from "../confirm.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { ALL_OPTION, allVms, eachVm } from "./each_vm.ts";

export const command: Command = {
  name: "delete",
  usage: "NAME… | --all [--yes] [--force] [--keep-history] [--json]",
  summary: "delete VMs with their disks and workspaces",
  notes: [
    "A VM with work that was not pulled is deleted with --force only; on a terminal sbx asks. Deleted VMs can be",
    "restored for a day where the disk has room: sbx list --deleted, sbx restore NAME.",
  ],
  options: [
    { name: "force", short: "f", about: "also VMs with work that was not pulled" },
    { name: "keep-history", about: "keep the conversations of its agent, for the next VM of its folder" },
    { ...ALL_OPTION, about: "delete every VM, after a question" },
    { name: "yes", short: "y", about: "with --all: do not ask" },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completes: ["vms"],
  examples: [
    "sbx delete demo",
    "sbx delete --force demo copy",
    "sbx delete claude-app --keep-history",
    "sbx delete --all",
  ],
  async run(args) {
    const json = args.has("json");
    const client = await connect();
    const vms = args.has("all") ? await allVms(client, "delete", args) : namesIn(args);
    if (args.has("all") && !confirmAll(vms, args)) return 1;
    const names = await eachVm(vms, "deleting", json, async (vm) => {
      if (args.has("keep-history")) {
        const { keepConversations } = await import("../start/agent_history.ts");
        const { agent, dir } = await keepConversations(client, vm);
        if (!json) {
          note(`sbx: kept the conversations: sbx agent ${agent} ${quoteWord(dir)} --continue goes on`);
        }
      }
      const { restorable_until } = await deleteVm(client, vm, args.has("force"), !json && isAttended());
      if (json) return;
      await print(`deleted ${vm}`);
      if (restorable_until && isAttended()) note(`sbx: sbx restore ${vm} brings it back within a day`);
    });
    if (json) await printJson({ deleted: names });
    return names.length === vms.length ? 0 : 1;
  },
};

/** @throws {SbxError} `usage.invalid` */
function namesIn(args: Arguments): string[] {
  if (args.words.length === 0) {
    throw usageError(command, "NAME is missing", "sbx delete --all deletes every VM");
  }
  if (args.has("yes")) {
    throw usageError(command, "--yes goes with --all", "--force deletes work that was not pulled");
  }
  return args.words;
}

/** Names every VM, and asks about all at once. Work that was not pulled is asked about again. */
function confirmAll(vms: readonly string[], args: Arguments): boolean {
  if (vms.length === 0 || args.has("yes")) return true;
  if (!Deno.stdin.isTerminal() || args.has("json")) {
    throw new SbxError(
      "usage.invalid",
      "sbx delete --all needs a confirmation, and there is no terminal for it",
      { hint: "confirm with sbx delete --all --yes" },
    );
  }
  return isYes(`delete ${vms.join(", ")}?`);
}

function isAttended(): boolean {
  return Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
}

/** @throws {SbxError} `vm.unlanded`: it has work that was not pulled, and the loss was not confirmed */
async function deleteVm(client: Client, vm: string, force: boolean, asks: boolean): Promise<DeleteResult> {
  const path = `/vms/${segment(vm)}/delete`;
  try {
    return await client.json<DeleteResult>("DELETE", `${path}${force ? "?force=true" : ""}`);
  } catch (error) {
    if (!asks || !(error instanceof SbxError) || error.code !== "vm.unlanded") throw error;
    note(`sbx: ${error.message}`);
    if (!isYes(`delete ${vm} all the same?`)) throw error;
    return await client.json<DeleteResult>("DELETE", `${path}?force=true`);
  }
}
