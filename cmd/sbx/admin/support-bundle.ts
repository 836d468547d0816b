import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { makeBundle } from "./machine_report.ts";

export const command: Command = {
  name: "support-bundle",
  usage: "[--session ID] --out FILE.tar.zst [--hide-hosts] [--json]",
  summary: "write a redacted archive: report, checks, logs, configuration",
  notes: [
    "Its content is listed before it is written. With --session: the VM's logs, and its events without bodies.",
  ],
  options: [
    { name: "session", value: "ID", about: "id of a session, or name of its VM", completes: "sessions" },
    { name: "out", value: "FILE", about: "file of the bundle; default sbx-support-DATE.tar.zst" },
    { name: "hide-hosts", about: "replace host names and addresses too" },
    JSON_OPTION,
  ],
  examples: ["sbx support-bundle --out bundle.tar.zst", "sbx support-bundle --session dev --out dev.tar.zst"],
  async run(args) {
    const made = await makeBundle({
      out: args.text("out"),
      session: args.text("session"),
      hosts: args.has("hide-hosts"),
    });
    await (args.has("json") ? printJson(made) : print(`wrote ${made.path}`));
    return 0;
  },
};
