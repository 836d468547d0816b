import type { RunResult, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { connect } from "../connect.ts";
import { note, printJson } from "../../../lib/base/print/mod.ts";
import { stageTable } from "../output.ts";
import {
  EXIT_NOTE,
  INPUT_OPTION,
  PROGRAM_OPTIONS,
  programRequest,
  SBX_FAILED,
  streamProgram,
} from "../vm/program.ts";
import { SIZE_OPTIONS, sizeOf } from "../vm/size.ts";
import { BRING_OPTIONS, FROM_DIR_OPTIONS } from "../files/repository.ts";
import { runInFolder } from "./run_folder.ts";
import { usageError } from "../usage.ts";
import { formatEvents } from "../record/events.ts";

export const command: Command = {
  name: "run",
  usage: "[OPTIONS] -- CMD…",
  summary: "run a program in a temporary VM",
  notes: [EXIT_NOTE],
  options: [
    ...SIZE_OPTIONS,
    ...PROGRAM_OPTIONS,
    INPUT_OPTION,
    ...FROM_DIR_OPTIONS,
    ...BRING_OPTIONS,
    { name: "pull", about: "with --from-dir: take the work before the VM is removed (sbx pull)" },
    { name: "verbose", short: "v", about: "print boot stages and events to stderr; times are UTC" },
    JSON_OPTION,
  ],
  program: true,
  failure: SBX_FAILED,
  examples: [
    "sbx run -- uname -a",
    "sbx run -e GREETING=hello -- sh -c 'echo $GREETING'",
    "sbx run --timeout 10 --json -- node --version",
    "sbx run --from-dir . --pull -- make test",
  ],
  async run(args) {
    const dir = args.text("from-dir");
    if (dir !== undefined && (args.has("json") || args.has("verbose"))) {
      throw usageError(command, "--from-dir cannot be combined with --json or --verbose");
    }
    const program = await programRequest(command, args, undefined, args.has("interactive"));
    const client = await connect();
    if (dir !== undefined) return await runInFolder(client, dir, args, sizeOf(args), program);
    const json = { ...program, ...sizeOf(args) };
    if (args.has("json")) {
      const result = await client.json<RunResult>("POST", "/run", { json });
      await printJson(result);
      return result.exit_code;
    }
    const response = await client.send("POST", "/run", { json, accept: "text/event-stream" });
    if (!args.has("verbose")) return await streamProgram(response);
    return await streamProgram(response, {
      booted: (vm) => note(formatBoot(vm)),
      events: (events) => note(`\n${formatEvents(events)}`),
    });
  },
};

/** Formats the accelerator and the boot stages of a VM. */
function formatBoot({ name, hypervisor, accelerator, boot_stages }: VmInfo): string {
  return `${name}: ${hypervisor}, ${accelerator ?? "accelerator unknown"}\n${stageTable(boot_stages)}\n`;
}
