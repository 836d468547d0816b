import type { ExecResult } from "../../../lib/api/vm.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { printJson } from "../output.ts";
import { PROGRAM_OPTIONS, programRequest, SBX_FAILED, streamProgram } from "../program.ts";

export const command: Command = {
  name: "exec",
  usage: "[OPTIONS] NAME -- CMD…",
  summary:
    "run a program in a running VM; the exit code is the program's, 124 if its time ran out, 125 if sbx failed",
  options: [
    { name: "command", short: "c", value: "LINE", about: "run a shell line instead of -- CMD…" },
    ...PROGRAM_OPTIONS,
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  program: true,
  completesNames: true,
  failure: SBX_FAILED,
  examples: [
    "sbx exec demo -- ls -la /workspace",
    "sbx exec demo -c 'ls | wc -l'",
    "echo hello | sbx exec -i demo -- cat",
  ],
  async run(given) {
    const json = await programRequest(command, given, given.text("command"));
    const client = await connect();
    const path = `/vms/${segment(given.words[0])}/exec`;
    if (given.on("json")) {
      const result = await client.json<ExecResult>("POST", path, { json });
      await printJson(result);
      return result.exit_code;
    }
    return await streamProgram(await client.send("POST", path, { json, accept: "text/event-stream" }));
  },
};
