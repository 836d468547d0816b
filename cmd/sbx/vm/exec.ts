import type { ExecResult, PipedRequest } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { Spinner, usageError } from "../output.ts";
import { printJson } from "../../../lib/base/print/mod.ts";
import {
  EXIT_NOTE,
  PROGRAM_OPTIONS,
  programRequest,
  reportExit,
  SBX_FAILED,
  startDetached,
  streamProgram,
} from "./program.ts";
import { startPiped } from "./program_pipe.ts";
import { PROGRAM_LIMIT_OPTION, programLimitsOf } from "./limit_option.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";

export const command: Command = {
  name: "exec",
  usage: "[OPTIONS] NAME -- CMD…",
  summary: "run a program in a running VM",
  notes: [EXIT_NOTE],
  options: [
    { name: "command", short: "c", value: "LINE", about: "run a shell line instead of -- CMD…" },
    ...PROGRAM_OPTIONS,
    PROGRAM_LIMIT_OPTION,
    {
      name: "interactive",
      short: "i",
      about:
        "pass sbx's standard input to the program while it runs; with --json it is read to its end first",
    },
    { name: "detach", short: "d", about: "start a job and print its id; sbx jobs shows it" },
    { name: "tty", short: "t", about: "with --detach: on a terminal, for sbx jobs attach" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  program: true,
  completes: ["vms"],
  failure: SBX_FAILED,
  examples: [
    "sbx exec demo -- ls -la /workspace",
    "sbx exec demo -c 'ls | wc -l'",
    "tar -c src | sbx exec -i demo -- tar -x",
    "sbx exec --limit processes=50 --limit file_mb=100 demo -- make test",
    "sbx exec --detach demo -- make test",
  ],
  async run(args) {
    if (args.has("detach")) return await startJob(args);
    if (args.has("tty")) {
      throw usageError(
        command,
        "--tty needs --detach",
        "sbx shell NAME -- CMD… runs a program on a terminal",
      );
    }
    const takesInput = args.has("interactive");
    const json = {
      ...await programRequest(command, args, args.text("command"), takesInput && args.has("json")),
      ...programLimitsOf(args),
    };
    const client = await connect();
    const [name] = args.words;
    const path = `/vms/${segment(name)}/exec`;
    if (args.has("json")) {
      const result = await client.json<ExecResult>("POST", path, { json });
      await printJson(result);
      return result.exit_code;
    }
    if (takesInput) return await pipeProgram(client, name, json);
    return await streamProgram(await client.send("POST", path, { json, accept: "text/event-stream" }));
  },
};

async function startJob(args: Arguments): Promise<number> {
  if (args.has("interactive")) throw usageError(command, "--detach and -i cannot be combined");
  if (args.has("tty") && args.text("timeout") !== undefined) {
    throw usageError(command, "--tty and --timeout cannot be combined");
  }
  if (args.has("limit")) {
    throw usageError(command, "--detach and --limit cannot be combined", "jobs have the limits of their VM");
  }
  const program = await programRequest(command, args, args.text("command"), false);
  return await startDetached(args.words[0], { ...program, tty: args.has("tty") }, args.has("json"));
}

/**
 * Runs a program, copies standard input to it while it runs, and its output back.
 *
 * @returns its exit code
 * @throws {SbxError} the errors of {@linkcode ProgramPipe.exit}
 */
async function pipeProgram(client: Client, name: string, request: PipedRequest): Promise<number> {
  let spinner: Spinner | undefined;
  const write = (out: typeof Deno.stdout) => async (bytes: Uint8Array) => {
    endSpinner();
    await writeAll(out, bytes);
  };
  const pipe = await startPiped(client, name, request, {
    stdout: write(Deno.stdout),
    stderr: write(Deno.stderr),
    resuming: (vm) => spinner = new Spinner(`resuming ${vm}`),
  });
  pipe.sendInput(Deno.stdin.readable);
  try {
    return reportExit(await pipe.exit);
  } finally {
    endSpinner();
  }

  function endSpinner(): void {
    spinner?.[Symbol.dispose]();
    spinner = undefined;
  }
}
