import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { checkLine, type DoctorReport, doctorReport } from "../../../lib/doctor/mod.ts";
import { connect } from "../connect.ts";
import { guestReport } from "../guest_report.ts";

export const command: Command = {
  name: "doctor",
  usage: "NAME [--json]",
  summary: "check a running VM from inside: clock, mounts, disk, memory, network, trust in the CA, MCP",
  notes: [
    "The exit code is 1 if something is wrong; the line below says what to do.",
    "The VM looks up sbx-doctor.invalid; requests of its curl and git to that name are refused and recorded.",
  ],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx doctor demo", "sbx doctor demo --json"],
  async run(args) {
    const { GuestReportSchema } = await import("../../../lib/doctor/schema.ts");
    const [name] = args.words;
    const client = await connect();
    const started = Date.now();
    const guest = await guestReport(client, name, ["sbx-doctor", "--json"], GuestReportSchema);
    const report = doctorReport(name, guest, { started, ended: Date.now() });
    await (args.has("json") ? printJson(report) : print(formatDoctor(report)));
    return report.ok ? 0 : 1;
  },
};

/** Formats checks, one per line; below a failed one its remedy. */
export function formatDoctor({ checks }: DoctorReport): string {
  return checks.map((check) => {
    const line = plain(checkLine(check, check.title));
    return check.remedy === undefined ? line : `${line}\n  ${check.remedy}`;
  }).join("\n");
}
