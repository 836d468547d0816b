/** Tools that run programs: in a VM that is there, and in one that is thrown away. */
import { z } from "zod";
import { EXEC_TIMEOUT_MAX_SECS, ExecRequest, RunRequest, type VmInfo } from "../../../lib/api/vm.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Context, type Tool, tool } from "../tool.ts";
import { vm } from "./common.ts";
import { follow } from "./output.ts";

/** Seconds that a program has when the agent names none. */
const TIMEOUT_SECS = 300;
/** Bytes of each stream that an agent is shown when it names none; more fills its context. */
const OUTPUT_BYTES = 32 * 1024;
const OUTPUT_BYTES_MAX = 1024 * 1024;

const { command, cwd, env, stdin } = ExecRequest.shape;
const program = {
  command: command.describe("a line for /bin/sh, or a program and its arguments as a list"),
  cwd: cwd.describe("folder to run it in; absent: /workspace"),
  env: env.describe("environment variables of it"),
  stdin: stdin.describe("what it reads from standard input"),
  timeout_secs: z.number().positive().max(EXEC_TIMEOUT_MAX_SECS).default(TIMEOUT_SECS)
    .describe("it is ended after so long, with exit code 124"),
  max_output_bytes: z.int().min(1024).max(OUTPUT_BYTES_MAX).default(OUTPUT_BYTES)
    .describe(
      "of each stream; of more the middle is left out. Write long output to a file and read parts of it",
    ),
};
const outcome = {
  exit_code: z.int().describe(
    "the program's; 124: out of time, 126: it could not be run, or policy refused it",
  ),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean().describe("the middle of a stream was left out"),
  duration_ms: z.number(),
  event_id: z.string().describe("pass it to `why` for the decision on this program"),
};
const hints = { readOnly: false, destructive: true, idempotent: false, openWorld: true };

interface Given {
  max_output_bytes: number;
  [request: string]: unknown;
}

/** Runs a program with its output streamed, which is what progress is made of. */
async function run(
  path: string,
  { max_output_bytes, ...json }: Given,
  { client, signal, progress }: Context,
) {
  const response = await client.send("POST", path, { json, accept: "text/event-stream", signal });
  return await follow(response.body!, { bytes: max_output_bytes, progress });
}

export const PROGRAM_TOOLS: Tool[] = [
  tool({
    name: "exec",
    title: "Run a program in a VM",
    description:
      "Runs a program in a VM as root and answers with its exit code and output. Waits while the VM boots. Network, model " +
      "and MCP traffic goes through the VM's policy: a request that is refused fails inside the program (HTTP 403, " +
      "NXDOMAIN), and `events` with denied: true tells which. Start servers in the background (`setsid … &`).",
    input: z.strictObject({ vm, ...program }),
    output: z.object(outcome),
    hints,
    run: async ({ vm, ...given }, context) => (await run(`/vms/${segment(vm)}/exec`, given, context)).exit,
  }),
  tool({
    name: "run",
    title: "Run a program in a VM of its own",
    description:
      "Boots a new VM, runs one program in it, and deletes the VM: for code that is not trusted, or that needs a clean " +
      "machine. Takes the seconds of a boot. What it did stays recorded: pass session_id to `events`.",
    input: z.strictObject({
      ...program,
      profile_id: RunRequest.shape.profile_id.describe("profile whose policy and image it has; absent: code"),
      cpus: RunRequest.shape.cpus,
      ram_mb: RunRequest.shape.ram_mb,
    }),
    output: z.object({ ...outcome, session_id: z.string().optional() }),
    hints,
    run: async (given, context) => {
      const { exit, booted } = await run("/run", given, context);
      return { ...exit, session_id: (booted as VmInfo | undefined)?.session_id };
    },
  }),
];
