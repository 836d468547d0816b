import type { PurgeResult } from "../../../lib/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";

export const command: Command = {
  name: "purge",
  usage: "[--all] [--yes] [--json]",
  summary: "remove stopped VMs that are not persistent; with --all every VM",
  options: [
    { name: "all", about: "also persistent and running VMs" },
    { name: "yes", short: "y", about: "do not ask for confirmation" },
    JSON_OPTION,
  ],
  examples: ["sbx purge", "sbx purge --all --yes"],
  async run(args) {
    const all = args.has("all");
    if (!args.has("yes") && !confirm(all)) return 1;
    const client = await connect();
    const { removed } = await client.json<PurgeResult>("POST", "/purge", { json: { all } });
    if (args.has("json")) await printJson({ removed });
    else await print(removed.length === 0 ? "no VMs to remove" : `removed ${removed.join(", ")}`);
    return 0;
  },
};

/** Asks for confirmation at a terminal. Without one, `--all` requires `--yes`. */
function confirm(all: boolean): boolean {
  if (Deno.stdin.isTerminal()) {
    const vms = all
      ? "every VM, including persistent and running ones"
      : "the stopped VMs that are not persistent";
    return /^y(es)?$/i.test(prompt(`remove ${vms}? [y/N]`)?.trim() ?? "");
  }
  if (!all) return true;
  throw new SbxError(
    "usage.invalid",
    "sbx purge --all removes every VM and needs a confirmation, but standard input is not a terminal",
    {
      hint: "confirm with sbx purge --all --yes",
    },
  );
}
