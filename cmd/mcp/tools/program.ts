/** Tools that run programs: in an existing VM, or in a temporary one. */
import { z } from "zod";
import { EXEC_TIMEOUT_MAX_SECS, ExecRequest, RunRequest } from "../../../lib/client/api/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Context, type Tool, tool, vm } from "../tool.ts";
import { AskSummary, AskWatch } from "./ask.ts";
import { follow, OUTPUT_BYTES, OUTPUT_BYTES_MAX } from "./output.ts";
import { commonOf, eventId, fetchEvents, type ListedEvent, subjectOf } from "./event.ts";

// Refusals of policy while a program ran.

/** Refusals in the result of one call. */
const REFUSALS_MAX = 20;
/**
 * Attempts to read the end of the program from the ledger, and `ms` between two;
 * events are written within 50 ms.
 */
const ATTEMPTS = 20;
const ATTEMPT_MS = 25;

const Refusal = z.object({
  event_id: z.string().describe("pass it to `why`"),
  event_type: z.string(),
  rule_id: z.string(),
  subject: z.string().describe("the refused request, file or call"),
});
type Refusal = z.infer<typeof Refusal>;

/**
 * Refusals in a VM since a program began.
 *
 * @param since Unix time in `ms`
 * @param program event of the program
 */
async function fetchRefusals(
  client: Client,
  session: string,
  since: number,
  program: string,
): Promise<Refusal[]> {
  for (let left = ATTEMPTS; left > 0; left--) {
    const { events } = await fetchEvents(client, session, { family: "process", since, limit: 1000 });
    if (isRecorded(events, program)) break;
    await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MS));
  }
  const query = { denied: "true", since, limit: REFUSALS_MAX } as const;
  return refusalsIn((await fetchEvents(client, session, query)).events);
}

/** Refusals among events. */
function refusalsIn(events: ListedEvent[]): Refusal[] {
  return events.filter(isRefused).slice(0, REFUSALS_MAX).map((event) => ({
    event_id: eventId(event),
    event_type: String(commonOf(event).event_type),
    rule_id: String(event.rule_id ?? ""),
    subject: subjectOf(event),
  }));
}

/** Tests whether everything until the end of a program is in the ledger. */
function isRecorded(events: ListedEvent[], program: string): boolean {
  const at = events.findIndex((event) => eventId(event) === program);
  if (at < 0) return false;
  return isRefused(events[at]) ||
    events.slice(at + 1).some((event) => commonOf(event).event_type === "process.exit");
}

function isRefused({ decision }: ListedEvent): boolean {
  return decision === "block";
}

/** Default time limit of a program in `s`. */
const TIMEOUT_SECS = 300;

const { command, cwd, env, stdin } = ExecRequest.shape;
const program = {
  command: command.describe("a command line for /bin/sh, or a list of a program and its arguments"),
  cwd: cwd.describe("working directory; default: /workspace"),
  env: env.describe("environment variables of the program"),
  stdin: stdin.describe("standard input of the program"),
  timeout_secs: z.number().positive().max(EXEC_TIMEOUT_MAX_SECS).default(TIMEOUT_SECS)
    .describe("time limit; the program is then ended with exit code 124"),
  max_output_bytes: z.int().min(1024).max(OUTPUT_BYTES_MAX).default(OUTPUT_BYTES)
    .describe(
      "limit of each stream; the middle of longer output is omitted. Write long output to a file and read it in parts",
    ),
};
const outcome = {
  exit_code: z.int().describe(
    "exit code of the program; 124: timed out, 126: cannot be run, or refused by policy",
  ),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean().describe("the middle of a stream was omitted"),
  duration_ms: z.number(),
  event_id: z.string().describe("pass it to `why` for the decision on this program"),
  denied: z.array(Refusal).describe(
    `the first ${REFUSALS_MAX} refusals of policy in the VM while the program ran`,
  ),
  asks: z.array(AskSummary).describe("questions to a person while the program ran, with the answers"),
};
const hints = { readOnly: false, destructive: true, idempotent: false, openWorld: true };

interface ProgramInput {
  max_output_bytes: number;
  [request: string]: unknown;
}

/** Runs a program and streams its output, which is reported as progress, as are asks. */
async function run(
  path: string,
  { max_output_bytes, ...json }: ProgramInput,
  context: Context,
  session?: string,
) {
  const { client, vms, progress } = context;
  using watch = await AskWatch.open(context, session);
  const since = Date.now() - 1;
  const response = await client.send("POST", path, { json, accept: "text/event-stream" });
  const { exit, events } = await follow(response.body!, {
    bytes: max_output_bytes,
    progress,
    onBoot(vm) {
      vms.add(vm);
      watch.session = vm.session_id;
    },
  });
  const denied = events
    ? refusalsIn(events)
    : await fetchRefusals(client, watch.session!, since, exit.event_id);
  return { ...exit, denied, asks: watch.asks, session_id: watch.session };
}

export const PROGRAM_TOOLS: Tool[] = [
  tool({
    name: "exec",
    title: "Run a program in a VM",
    description:
      "Runs a program in a VM as root and returns its exit code and output. Waits while the VM boots. Network, model and " +
      "MCP traffic is subject to the VM's policy: a refused request fails inside the program (HTTP 403, NXDOMAIN) and is in " +
      "denied. An event that a rule leaves to a person waits for the answer, which is in asks. Use `start_job` for servers and for work of many minutes.",
    input: z.strictObject({ vm, ...program }),
    output: z.object(outcome),
    hints,
    run: async ({ vm, ...input }, context) => {
      const id = await context.vm(vm);
      return await run(`/vms/${segment(id)}/exec`, input, context, id);
    },
  }),
  tool({
    name: "run",
    title: "Run a program in a new VM",
    description:
      "Boots a new VM, runs one program in it and deletes the VM: for untrusted code, or code that needs a clean machine. " +
      "Takes a few seconds for the boot. The record of the session is kept: pass session_id to `events`.",
    input: z.strictObject({
      ...program,
      profile_id: RunRequest.shape.profile_id.describe(
        "profile with the VM's policy and image; default: code",
      ),
      cpus: RunRequest.shape.cpus,
      ram_mb: RunRequest.shape.ram_mb,
      arch: RunRequest.shape.arch,
    }),
    output: z.object({ ...outcome, session_id: z.string().optional() }),
    hints,
    run: (input, context) => run("/run", input, context),
  }),
];
