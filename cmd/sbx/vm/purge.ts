import type { PurgeResult } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { isYes } from "../confirm.ts";
import { purgeHome } from "./purge_home.ts";
import { connect } from "../connect.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";

export const command: Command = {
  name: "purge",
  usage: "[--all [--force] | --deleted | --home] [--yes] [--json]",
  summary: "remove stopped VMs that are not persistent, or the whole home",
  options: [
    { name: "all", about: "also persistent and running VMs" },
    { name: "force", about: "also VMs with work that was not pulled" },
    { name: "deleted", about: "the VMs that were deleted and could be restored, and no others" },
    { name: "home", about: "the home itself: VMs, images, records, credentials and settings" },
    { name: "yes", short: "y", about: "do not ask for confirmation" },
    JSON_OPTION,
  ],
  examples: ["sbx purge", "sbx purge --all --yes", "sbx purge --home"],
  async run(args) {
    const [all, force, deleted] = ["all", "force", "deleted"].map((name) => args.has(name));
    if (args.has("home")) {
      if (!all && !force && !deleted) {
        return await purgeHome({ yes: args.has("yes"), json: args.has("json") });
      }
      throw new SbxError("usage.invalid", "--home removes every VM, and is given alone", {
        hint: "sbx purge --home lists everything and asks",
      });
    }
    if (deleted && (all || force)) {
      throw new SbxError(
        "usage.invalid",
        "--deleted is for VMs that were deleted, --all and --force for others",
        {
          hint: "give one of them",
        },
      );
    }
    if (!args.has("yes") && !confirm(all, deleted)) return 1;
    const client = await connect();
    const json = { all, force, deleted };
    const { removed, kept } = await client.json<PurgeResult>("POST", "/purge", { json });
    if (args.has("json")) await printJson({ removed, kept });
    else if (removed.length > 0 || kept.length === 0) {
      await print(removed.length === 0 ? "no VMs to remove" : `removed ${removed.join(", ")}`);
    }
    if (kept.length > 0 && !args.has("json")) {
      note(`sbx: kept ${kept.join(", ")}: work that was not pulled (sbx diff NAME); --force removes it too`);
    }
    return kept.length === 0 ? 0 : 1;
  },
};

/** Asks for confirmation at a terminal. Without one, `--all` requires `--yes`. */
function confirm(all: boolean, deleted: boolean): boolean {
  if (Deno.stdin.isTerminal()) {
    const vms = deleted
      ? "the deleted VMs for good"
      : all
      ? "every VM, including persistent and running ones"
      : "the stopped VMs that are not persistent";
    return isYes(`remove ${vms}?`);
  }
  if (!all && !deleted) return true;
  throw new SbxError(
    "usage.invalid",
    `sbx purge ${
      deleted ? "--deleted removes VMs for good" : "--all removes every VM"
    } and needs a confirmation, ` +
      "but standard input is not a terminal",
    { hint: deleted ? "confirm with sbx purge --deleted --yes" : "confirm with sbx purge --all --yes" },
  );
}
