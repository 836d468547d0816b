import { resolve } from "node:path";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { writeAtomic } from "../../../lib/base/home/mod.ts";
import { formatJson, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { fetchReport } from "./machine_report.ts";
import type { DebugReport } from "../../../lib/client/api/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { pairs } from "../output.ts";

/** Lines of each log to print; the JSON has more. */
const LOG_LINES = 20;

/** The report for people: problems first, then each part, then the ends of the logs. */
export function formatReport(report: DebugReport): string {
  const { version, paths, runtime, host, disk, install, setup, assets, status, logs } = report;
  const lines: [string, string | undefined][] = [
    ...status.issues.map((issue): [string, string] => ["issue", issue]),
    ...status.defunct_sessions.map((
      { name, last_error },
    ): [string, string] => ["failed VM", `${name}: ${last_error}`]),
    ["generated", report.generated_at],
    [
      "version",
      [version.sbx_version, version.build_hash, version.build_ts, version.platform].filter(Boolean).join(" "),
    ],
    ["host", `${host.os} ${host.arch} (${host.family})`],
    ["home", paths.sbx_home],
    ["VMs", `${runtime.running_vm_count} running of ${runtime.total_vm_count}`],
    ...report.processes.map(({ name, pid, running, executable_path }): [string, string] => [
      name,
      running ? `pid ${pid}, ${executable_path}` : pid > 0 ? `pid ${pid} is gone` : "not running",
    ]),
    ...Object.entries(disk).map(([name, { exists, available_bytes, total_bytes }]): [string, string] => [
      `disk of ${name}`,
      exists ? `${formatBytes(available_bytes)} of ${formatBytes(total_bytes)} available` : "missing",
    ]),
    ["program", install.current_exe],
    ...Object.entries(report.host_binaries).map((
      [name, { exists, path, mode_octal, executable }],
    ): [string, string] => [
      name,
      exists ? `${path} ${mode_octal}${executable ? "" : ", not executable"}` : "missing",
    ]),
    ["set-up", setupText(setup)],
    [
      "manifest",
      assets.manifest.exists ? `${assets.asset_version_for_binary} ${assets.manifest.hash}` : "missing",
    ],
    ...Object.entries(assets.files).map((
      [name, { exists, actual_hash_matches_manifest }],
    ): [string, string] => [
      name,
      !exists
        ? "missing"
        : actual_hash_matches_manifest
        ? "matches the manifest"
        : "differs from the manifest",
    ]),
  ];
  const tails = logs.filter(({ exists }) => exists).map(({ name, size_bytes, tail }) =>
    [`\n${name}.log (${formatBytes(size_bytes)}), the last lines:`, ...tail.slice(-LOG_LINES)].join("\n")
  );
  return [pairs(lines), ...tails].join("\n");
}

function setupText({ present, parse_error, completed_steps }: DebugReport["setup"]): string {
  if (parse_error !== null) return `its state cannot be read: ${parse_error}`;
  if (!present) return "never recorded";
  return `${count(completed_steps.length, "step")} done: ${completed_steps.join(", ") || "none"}`;
}

export const command: Command = {
  name: "debug",
  usage: "[--json] [--out FILE] [--hide-hosts]",
  summary: "print a report of this installation that can be sent to anyone",
  notes: [
    "Secrets, names of users and e-mail addresses are replaced. docs/guides/debug.md describes each part.",
    "Prints text to a terminal, and JSON elsewhere. Works without the service too, with a note.",
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
    } else {
      await (args.has("json") || !Deno.stdout.isTerminal() ? printJson(report) : print(formatReport(report)));
    }
    return 0;
  },
};
