import type { ExecResult } from "../../../lib/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { printJson } from "../../../lib/base/print/mod.ts";
import { EXIT_NOTE, PROGRAM_OPTIONS, programRequest, SBX_FAILED, streamProgram } from "../program.ts";

export const command: Command = {
  name: "exec",
  usage: "[OPTIONS] NAME -- CMD…",
  summary: "run a program in a running VM",
  notes: [EXIT_NOTE],
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
  async run(args) {
    const json = await programRequest(command, args, args.text("command"));
    const client = await connect();
    const path = `/vms/${segment(args.words[0])}/exec`;
    if (args.has("json")) {
      const result = await client.json<ExecResult>("POST", path, { json });
      await printJson(result);
      return result.exit_code;
    }
    return await streamProgram(await client.send("POST", path, { json, accept: "text/event-stream" }));
  },
};
