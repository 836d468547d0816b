import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { checkLine, type DoctorReport, doctorReport } from "../../../lib/support/doctor/mod.ts";
import { connect } from "../connect.ts";
import { guestReport } from "../admin/guest_report.ts";
import { usageError } from "../output.ts";

export const command: Command = {
  name: "doctor",
  usage: "[NAME] [--fix] [--bundle] [--report] [--json]",
  summary: "check this machine, or with NAME a running VM from inside",
  notes: [
    "The exit code is 1 if a check failed; the line below it has the remedy.",
    "With NAME: clock, mounts, disk, memory, network, trust in the CA, MCP. The VM looks up sbx-doctor.invalid; " +
    "requests of its curl and git to that name are refused and recorded.",
  ],
  options: [
    { name: "fix", about: "mend what is harmless: permissions of sbx's own files" },
    { name: "bundle", about: "also write sbx-support-DATE.tar.zst, as sbx support-bundle does" },
    {
      name: "report",
      about: "also write sbx-host-DATE.txt: processor, KVM, versions, starts of the running VMs",
    },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: ["vms"],
  examples: ["sbx doctor", "sbx doctor --fix", "sbx doctor demo", "sbx doctor demo --json"],
  async run(args) {
    const [name] = args.words;
    if (name === undefined) return await doctorHost(args);
    if (args.has("fix") || args.has("bundle") || args.has("report")) {
      throw usageError(command, "--fix, --bundle and --report apply to this machine, and take no NAME");
    }
    return await doctorVm(args, name);
  },
};

async function doctorHost(args: Arguments): Promise<number> {
  const { diagnoseHost, formatHost, keepReport, makeBundle, writeFacts } = await import(
    "../admin/machine_report.ts"
  );
  const { Redactor } = await import("../../../lib/base/redact/mod.ts");
  // Unchecked: this may have to report a home owned by another user.
  const place = home(Deno.env);
  const report = await diagnoseHost(place, { fix: args.has("fix") });
  await keepReport(place, report, new Redactor());
  await (args.has("json") ? printJson(report) : print(formatHost(report)));
  if (args.has("bundle")) {
    note(`wrote ${(await makeBundle({})).path}`);
  }
  if (args.has("report")) note(`wrote ${await writeFacts(place, report)}`);
  return report.ok ? 0 : 1;
}

async function doctorVm(args: Arguments, name: string): Promise<number> {
  const { GuestReportSchema } = await import("../../../lib/support/doctor/schema.ts");
  const client = await connect();
  const started = Date.now();
  const guest = await guestReport(client, name, ["sbx-doctor", "--json"], GuestReportSchema);
  const report = doctorReport(name, guest, { started, ended: Date.now() });
  await (args.has("json") ? printJson(report) : print(formatDoctor(report)));
  return report.ok ? 0 : 1;
}

/** Formats checks, one per line; below a failed one its remedy. */
export function formatDoctor({ checks }: DoctorReport): string {
  return checks.map((check) => {
    const line = plain(checkLine(check, check.title));
    return check.remedy === undefined ? line : `${line}\n  ${check.remedy}`;
  }).join("\n");
}
