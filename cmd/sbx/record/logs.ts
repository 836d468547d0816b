import type { LogsResult } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { UTC_NOTE } from "../output.ts";

const TAIL_MAX = 1_000_000;

export const command: Command = {
  name: "logs",
  usage: "NAME [--tail N] [--json]",
  summary: "print the last part of each log of a VM",
  notes: [UTC_NOTE],
  options: [{ name: "tail", value: "N", about: "only the last N lines of each log" }, JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx logs demo", "sbx logs demo --tail 20"],
  async run(args) {
    const tail = args.number("tail", { min: 0, max: TAIL_MAX }) ?? TAIL_MAX;
    const client = await connect();
    const { logs } = await client.json<LogsResult>("GET", `/vms/${segment(args.words[0])}/logs`);
    const shortened = logs.map((log) => {
      const lines = log.lines.slice(Math.max(0, log.lines.length - tail));
      return { ...log, lines, truncated: log.truncated || lines.length < log.lines.length };
    });
    if (args.has("json")) return await printJson({ logs: shortened }), 0;
    for (const { name, size_bytes, truncated, lines } of shortened) {
      await print(`==> ${plain(name)} (${size_bytes} bytes${truncated ? ", truncated to its end" : ""}) <==`);
      if (lines.length > 0) await print(lines.map((line) => plain(line)).join("\n"));
    }
    return 0;
  },
};
