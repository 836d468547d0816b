import type { RunResult, VmInfo } from "../../../lib/api/vm.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { eventTable } from "./events.ts";
import { note, printJson, stageTable } from "../output.ts";
import { PROGRAM_OPTIONS, programRequest, SBX_FAILED, streamProgram } from "../program.ts";
import { SIZE_OPTIONS, sizeOf } from "../size.ts";

export const command: Command = {
  name: "run",
  usage: "[OPTIONS] -- CMD…",
  summary:
    "run a program in a VM that is thrown away; the exit code is the program's, 124 if its time ran out, 125 if sbx failed",
  options: [
    ...SIZE_OPTIONS,
    ...PROGRAM_OPTIONS,
    { name: "verbose", short: "v", about: "tell on stderr how it booted and what it did" },
    JSON_OPTION,
  ],
  program: true,
  failure: SBX_FAILED,
  examples: [
    "sbx run -- uname -a",
    "sbx run -e GREETING=hello -- sh -c 'echo $GREETING'",
    "sbx run --timeout 10 --json -- node --version",
  ],
  async run(given) {
    const json = { ...await programRequest(command, given), ...sizeOf(given) };
    const client = await connect();
    if (given.on("json")) {
      const result = await client.json<RunResult>("POST", "/run", { json });
      await printJson(result);
      return result.exit_code;
    }
    const response = await client.send("POST", "/run", { json, accept: "text/event-stream" });
    if (!given.on("verbose")) return await streamProgram(response);
    return await streamProgram(response, {
      booted: (vm) => note(bootReport(vm)),
      events: (events) => note(`\n${eventTable(events)}`),
    });
  },
};

/** Which accelerator the VM got, and where the time of its boot went. */
function bootReport({ name, hypervisor, accelerator, boot_stages }: VmInfo): string {
  return `${name}: ${hypervisor}, ${accelerator ?? "accelerator unknown"}\n${stageTable(boot_stages)}\n`;
}
