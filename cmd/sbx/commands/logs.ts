import type { LogsResult } from "../../../lib/api/vm.ts";
import { segment } from "../../../lib/client/mod.ts";
import { numberOf } from "../arguments.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { plain, print, printJson } from "../output.ts";

const TAIL_MAX = 1_000_000;

export const command: Command = {
  name: "logs",
  usage: "NAME [--tail N] [--json]",
  summary: "the ends of a VM's logs",
  options: [{ name: "tail", value: "N", about: "only the last N lines of each" }, JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx logs demo", "sbx logs demo --tail 20"],
  async run(given) {
    const tail = numberOf(given, "tail", { min: 0, max: TAIL_MAX }) ?? TAIL_MAX;
    const client = await connect();
    const { logs } = await client.json<LogsResult>("GET", `/vms/${segment(given.words[0])}/logs`);
    const cut = logs.map((log) => {
      const lines = log.lines.slice(Math.max(0, log.lines.length - tail));
      return { ...log, lines, truncated: log.truncated || lines.length < log.lines.length };
    });
    if (given.on("json")) return await printJson({ logs: cut }), 0;
    for (const { name, size_bytes, truncated, lines } of cut) {
      await print(`==> ${plain(name)} (${size_bytes} bytes${truncated ? ", its end" : ""}) <==`);
      if (lines.length > 0) await print(lines.map((line) => plain(line)).join("\n"));
    }
    return 0;
  },
};
