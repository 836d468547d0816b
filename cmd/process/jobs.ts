/** Jobs of the VM, as the service calls them. */
import { SbxError } from "../../lib/base/error/mod.ts";
import { timeLimit } from "../../lib/base/time/mod.ts";
import type { Call, Caller, Reply } from "../../lib/session/ipc/mod.ts";
import type { JobRunner, Jobs } from "../../lib/session/job/mod.ts";
import type { Session } from "../../lib/session/mod.ts";

export type JobCall = Extract<Call, { t: "Jobs" | "JobStart" | "JobStop" }>;
type FollowCall = Extract<Call, { t: "JobFollow" }>;

/** Longest wait for policy's decision, in `ms`: a person's answer may take longer. */
const DECISION_MS = timeLimit(5000);
/** Longest wait for the end of a stopped job, in `ms`: SIGKILL comes earlier. */
const STOP_MS = timeLimit(5000);
/** Size of a job's terminal until a person attaches. */
const SIZE = { cols: 80, rows: 24 };

/** Runs the programs of jobs in a session's guest. */
export function jobRunner(session: Session): JobRunner {
  return {
    scrub: async (value) => (await session.enforcement).scrub(value),
    exec: ({ tty: _, ...program }, streams, cancelled) =>
      session.exec({ t: "Exec", ...program, stdin: false }, streams, cancelled),
    async terminal({ argv, cwd, env, trace_id }, { decided, refused }, cancelled) {
      let refusal: string | undefined;
      try {
        return await session.terminal(SIZE, {
          argv,
          cwd,
          env,
          cancelled,
          decided(event_id, line) {
            refusal = line;
            decided(event_id, line === undefined);
          },
        }, trace_id);
      } catch (error) {
        if (!(error instanceof SbxError) || error.code !== "policy.blocked" || !refusal) throw error;
        refused(`${refusal}\n`);
        return undefined;
      }
    },
  };
}

export async function replyToJobCall(jobs: Jobs, call: JobCall): Promise<Reply> {
  switch (call.t) {
    case "Jobs":
      return { t: "Jobs", jobs: await jobs.list() };
    case "JobStart": {
      const { t: _, ...program } = call;
      return { t: "Job", job: await jobs.start(program, DECISION_MS) };
    }
    case "JobStop":
      return { t: "Job", job: await jobs.stop(call.job, STOP_MS) };
  }
}

/** Sends a job's output until the job ends, then its record; or until the caller leaves. */
export async function followJob(jobs: Jobs, { job: id, from }: FollowCall, caller: Caller): Promise<void> {
  const job = await jobs.running(id);
  const gone = new AbortController();
  caller.input().finally(() => gone.abort());
  await job.follow(from, async ({ stream, bytes, missing }) => {
    if (missing > 0) await caller.reply({ t: "Missing", bytes: missing });
    await caller.reply({ t: "Output", stream, data: bytes.toBase64() });
  }, gone.signal);
  if (!gone.signal.aborted) await caller.reply({ t: "Job", job: job.record });
}
