import type { PurgeResult } from "../../../lib/api/vm.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../output.ts";

export const command: Command = {
  name: "purge",
  usage: "[--all] [--yes] [--json]",
  summary: "remove VMs that have ended and are not persistent; with --all every VM",
  options: [
    { name: "all", about: "persistent and running VMs too" },
    { name: "yes", short: "y", about: "do not ask" },
    JSON_OPTION,
  ],
  examples: ["sbx purge", "sbx purge --all --yes"],
  async run(given) {
    const all = given.on("all");
    if (!given.on("yes") && !agreed(all)) return 1;
    const client = await connect();
    const { removed } = await client.json<PurgeResult>("POST", "/purge", { json: { all } });
    if (given.on("json")) await printJson({ removed });
    else await print(removed.length === 0 ? "nothing to remove" : `removed ${removed.join(", ")}`);
    return 0;
  },
};

/** Asks at a terminal. Elsewhere nobody can answer, so that `--all` must be meant: it takes `--yes`. */
function agreed(all: boolean): boolean {
  if (Deno.stdin.isTerminal()) {
    const what = all
      ? "every VM, persistent and running ones too"
      : "the VMs that are not persistent and do not run";
    return /^y(es)?$/i.test(prompt(`remove ${what}? [y/N]`)?.trim() ?? "");
  }
  if (!all) return true;
  throw new SbxError(
    "usage.invalid",
    "sbx purge --all removes every VM, and there is no terminal to ask at",
    {
      hint: "sbx purge --all --yes does not ask",
    },
  );
}
