import type { CreateRequest, FindingList, ListedFinding } from "../../../lib/client/api/mod.ts";
import type { Command } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { sourcesOf } from "../../../lib/repo/mod.ts";
import { connect } from "../connect.ts";
import { requireThisMachine } from "../host.ts";
import { bringFolder, FROM_DIR_OPTIONS } from "../files/repository.ts";
import { findLedger } from "../record/ledger_path.ts";
import { pullNamedImage } from "../vm/image_option.ts";
import { waitUntilRunning } from "../vm/new_vm.ts";
import { NEW_VM_OPTIONS, newVmOf } from "../vm/new_vm_options.ts";
import { EXIT_NOTE, PROGRAM_OPTIONS, programRequest, SBX_FAILED } from "../vm/program.ts";
import { inTemporaryVm } from "../vm/temporary.ts";
import { recordedOf } from "./agent_report.ts";
import {
  ciAnnotations,
  ciCodeQuality,
  ciExitCode,
  ciJunit,
  type CiRun,
  ciSummary,
  FAIL_ON,
  type FailOn,
} from "./ci_files.ts";
import { isGithub, makeReportFolder, showProgram, writeReport } from "./ci_output.ts";
import { join } from "node:path";

const OUT = "sbx-ci";

export const command: Command = {
  name: "ci",
  usage: "[OPTIONS] -- CMD…",
  summary: "run a program in a VM for a build server, and leave its record",
  notes: [
    "The folder of --out gets summary.md, findings.json, junit.xml, gl-code-quality-report.json, certificate.json and " +
    "session.db, also where the program or a finding fails the run (docs/guides/ci.md).",
    `${EXIT_NOTE} 4 after a success with findings of --fail-on.`,
  ],
  options: [
    ...NEW_VM_OPTIONS,
    ...PROGRAM_OPTIONS,
    ...FROM_DIR_OPTIONS,
    { name: "out", value: "DIR", about: `folder for the files; default ${OUT}` },
    {
      name: "fail-on",
      value: "SEVERITY",
      about: `findings that fail the run: ${FAIL_ON.join(", ")}; default high`,
      choices: FAIL_ON,
    },
  ],
  program: true,
  failure: SBX_FAILED,
  examples: ["sbx ci -- npm test", "sbx ci --from-dir . --fail-on medium --out report -- make test"],
  async run(args) {
    requireThisMachine("ci");
    const failOn = (args.text("fail-on") ?? "high") as FailOn;
    const asked = newVmOf(args);
    const dir = args.text("from-dir");
    if (dir !== undefined) await sourcesOf(dir);
    const { image } = await pullNamedImage(args);
    const program = await programRequest(command, args, undefined, false);
    const out = args.text("out") ?? OUT;
    await makeReportFolder(out);
    const client = await connect();
    const json: CreateRequest = { ...asked, ...image !== undefined && { image } };
    const run = await inTemporaryVm(client, json, {
      async run(vm): Promise<CiRun> {
        await waitUntilRunning(client, vm);
        const brought = dir === undefined ? undefined : await bringFolder(client, vm.name, dir, args);
        const response = await client.send("POST", `/vms/${segment(vm.id)}/exec`, {
          json: { ...program, cwd: program.cwd ?? brought?.place },
          accept: "text/event-stream",
        });
        const exit_code = await showProgram(response);
        const { refused, cost } = await recordedOf(client, { name: vm.name, session: vm.id });
        const line = typeof program.command === "string" ? program.command : program.command.join(" ");
        const findings = await findingsOf(client, vm.id);
        return { program: line, exit_code, session: vm.id, refused, cost, findings };
      },
    });
    await writeFiles(client, out, run, failOn);
    return ciExitCode(run, failOn);
  },
};

async function findingsOf(client: Client, session: string): Promise<ListedFinding[]> {
  const findings: ListedFinding[] = [];
  const path = `/sessions/${segment(session)}/findings`;
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const page = await client.json<FindingList>("GET", path, {
      query: cursor === undefined ? {} : { cursor },
    });
    findings.push(...page.findings);
    cursor = page.next_cursor;
  }
  return findings;
}

/**
 * Writes the files of a run whose VM, and with it the record, has ended, and shows annotations and summary.
 */
async function writeFiles(client: Client, out: string, run: CiRun, failOn: FailOn): Promise<void> {
  const summary = ciSummary(run);
  const certificate = await client.json("GET", `/sessions/${segment(run.session)}/certificate`);
  const files = {
    "summary.md": summary,
    "findings.json": JSON.stringify(run, null, 2) + "\n",
    "junit.xml": ciJunit(run, failOn),
    "gl-code-quality-report.json": ciCodeQuality(run.findings),
    "certificate.json": JSON.stringify(certificate) + "\n",
  };
  await writeReport(out, files, (await findLedger(run.session)).path);
  // On the stream of the program's output: on the other one they could be read while commands are stopped.
  if (isGithub()) { for (const line of ciAnnotations(run, failOn)) await print(line); }
  const shown = Deno.env.get("GITHUB_STEP_SUMMARY");
  if (shown) {
    await Deno.writeTextFile(shown, summary, { append: true }).catch((cause) => {
      throw new SbxError("ci.summary", `the summary of the job cannot be written to ${shown}`, {
        cause,
        hint: `it is in ${join(out, "summary.md")}`,
      });
    });
  }
}
