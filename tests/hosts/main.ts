/**
 * Starts VMs on each Debian suite as root and as another user: `main.ts COUNT SUITE…` prints the table of
 * docs/guides/hosts.md.
 */
import { table } from "../../scripts/docs_table.ts";
import { type HostReport, reportOf, type Starts } from "./host.ts";

const USERS = ["root", "person"] as const;
const HEADER = [
  ...["suite", "QEMU", "vhost-device-vsock", "virtiofsd", "user"],
  ...["cold boots", "ready (s)", "template starts", "ready (s)"],
  ...["resumes", "program ran (s)"],
];

const [count, ...suites] = Deno.args;
if (!(Number(count) >= 1)) throw new Error(`COUNT is a number of starts, not "${count}"`);
const rows: string[][] = [];
let failed = false;
for (const suite of suites) {
  for (const user of USERS) {
    try {
      const report = await reportOf({ suite, user }, Number(count));
      const failures = [
        ...report.cold.failures,
        ...report.template.failures,
        ...report.resume?.failures ?? [],
      ];
      rows.push([suite, ...cells(user, report)]);
      console.error(rows.at(-1)!.join(", "), ...failures);
      failed ||= failures.length > 0;
    } catch (error) {
      console.error(error);
      failed = true;
    }
  }
}
const load = Deno.loadavg()[0].toFixed(0);
console.log(
  `${new Date().toISOString().slice(0, 10)}: make test-hosts COUNT=${count}, load at the end ${load}\n`,
);
console.log(table(HEADER, rows));
Deno.exit(failed ? 1 : 0);

function cells(user: string, { qemu, vsock, virtiofsd, cold, template, resume }: HostReport): string[] {
  const resumeCells = resume ? startCells(resume) : ["–", "–"];
  return [qemu, vsock, virtiofsd, user, ...startCells(cold), ...startCells(template), ...resumeCells];
}

function startCells({ ok, of, median_s, slowest_s }: Starts): string[] {
  const times = ok > 0 ? `${median_s!.toFixed(1)}, slowest ${slowest_s!.toFixed(1)}` : "–";
  return [`${ok} of ${of}`, times];
}
