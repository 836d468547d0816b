import { resolve } from "node:path";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { writeAtomic } from "../../../lib/base/home/mod.ts";
import { formatJson, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { formatReport } from "./debug_text.ts";
import { fetchReport } from "./debug_report.ts";

export const command: Command = {
  name: "debug",
  usage: "[--json] [--out FILE] [--hide-hosts]",
  summary: "print a report of this installation that can be sent to anyone",
  notes: [
    "Secrets, names of users and e-mail addresses are replaced. docs/guides/debug.md says what each part tells.",
    "It is JSON where the output is no terminal, and text on one. Works without a service, and then says so.",
  ],
  options: [
    JSON_OPTION,
    { name: "out", value: "FILE", about: "write the report to a file, as JSON" },
    { name: "hide-hosts", about: "replace host names and addresses too" },
  ],
  examples: ["sbx debug", "sbx debug --json", "sbx debug --out report.json --hide-hosts"],
  async run(args) {
    const report = await fetchReport(undefined, { hosts: args.has("hide-hosts") });
    const out = args.text("out");
    if (out !== undefined) {
      const path = resolve(out);
      await writeAtomic(path, formatJson(report, 2) + "\n").catch((cause) => {
        throw new SbxError("debug.not_written", `cannot write the report to ${path}`, {
          cause,
          hint: "name a file in a folder that you may write to, on a disk with room",
        });
      });
      note(`wrote ${path}`);
    } else {await (args.has("json") || !Deno.stdout.isTerminal()
        ? printJson(report)
        : print(formatReport(report)));}
    return 0;
  },
};
