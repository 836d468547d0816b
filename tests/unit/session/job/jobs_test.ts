/** Jobs of a VM whose programs are promises. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  jobDir,
  type JobProgram,
  type JobRunner,
  Jobs,
  JOBS_KEPT,
  JOBS_RUNNING_MAX,
  OutputReader,
} from "../../../../lib/session/job/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

const PROGRAM: JobProgram = { argv: ["make"], tty: false };
const EVENT = "0123456789ab";
const PATIENCE_MS = 1000;

/** A guest whose programs end with the code that `ends` settles with. */
function runnerOf(ends: Promise<number>, { decides = true, allowed = true } = {}): JobRunner {
  return {
    scrub: (value) => Promise.resolve(value),
    async exec(_, streams, cancelled) {
      if (!decides) await ends;
      streams.decided(EVENT, allowed);
      await streams.output("stdout", btoa("hello"));
      const killed = new Promise<number>((resolve) =>
        cancelled.addEventListener("abort", () => resolve(143))
      );
      return { exit_code: allowed ? await Promise.race([ends, killed]) : 126 };
    },
    terminal: () => Promise.reject(new Error("not used")),
  };
}

async function inDir(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(`${dir}/jobs`);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => promise, SbxError)).code;
}

Deno.test("a job runs, ends with its exit code, and its output is on disk", () =>
  inDir(async (dir) => {
    const end = Promise.withResolvers<number>();
    const jobs = new Jobs(dir, runnerOf(end.promise));
    const job = await jobs.start(PROGRAM, PATIENCE_MS);
    assertEquals([job.state, job.event_id, job.argv], ["Running", EVENT, ["make"]]);
    end.resolve(7);
    await (await jobs.running(job.id)).ended;
    const { state, exit_code, reason, duration_ms } = await jobs.find(job.id);
    assertEquals([state, exit_code, reason], ["Ended", 7, undefined]);
    assert(duration_ms! >= 0);
    using reader = new OutputReader(jobDir(dir, job.id));
    assertEquals(new TextDecoder().decode(reader.read()!.bytes), "hello");
    await jobs.settle();
  }));

Deno.test("secrets among the arguments are written down as refs", () =>
  inDir(async (dir) => {
    const runner = {
      ...runnerOf(Promise.resolve(0)),
      scrub: () => Promise.resolve({ argv: ["login", "a-ref"] }),
    };
    const jobs = new Jobs(dir, runner as unknown as JobRunner);
    const { id, argv } = await jobs.start({ argv: ["login", "sk-ant-secret"], tty: false }, PATIENCE_MS);
    await jobs.settle();
    assertEquals(argv, ["login", "a-ref"]);
    assert(!(await Deno.readTextFile(`${jobDir(dir, id)}/job.json`)).includes("sk-ant"));
  }));

Deno.test("one that policy blocked has ended with 126, and says so", () =>
  inDir(async (dir) => {
    const jobs = new Jobs(dir, runnerOf(Promise.resolve(0), { allowed: false }));
    const { state, exit_code, reason } = await jobs.start(PROGRAM, PATIENCE_MS);
    assertEquals([state, exit_code, reason], ["Ended", 126, "policy blocked it"]);
    await jobs.settle();
  }));

Deno.test("one that waits for a person is Waiting, and can be stopped", () =>
  inDir(async (dir) => {
    const jobs = new Jobs(dir, {
      scrub: (value) => Promise.resolve(value),
      exec: (_, __, cancelled) =>
        new Promise((_, reject) =>
          cancelled.addEventListener("abort", () => reject(new SbxError("ask.cancelled", "nobody waits")))
        ),
      terminal: () => Promise.reject(new Error("not used")),
    });
    const { id, state } = await jobs.start(PROGRAM, 1);
    assertEquals(state, "Waiting");
    assertEquals((await jobs.stop(id, PATIENCE_MS)).reason, "stopped by sbx jobs stop");
    assertEquals(await codeOf(jobs.stop(id, PATIENCE_MS)), "job.ended");
    assertEquals(await codeOf(jobs.stop("ffffffff", PATIENCE_MS)), "job.not_found");
    await jobs.settle();
  }));

Deno.test("a failure of the guest is the reason of the end", () =>
  inDir(async (dir) => {
    const jobs = new Jobs(dir, {
      scrub: (value) => Promise.resolve(value),
      exec(_, { decided }) {
        decided(EVENT, true);
        return Promise.reject(new SbxError("process.gone", "the VM has ended"));
      },
      terminal: () => Promise.reject(new Error("not used")),
    });
    const { id } = await jobs.start(PROGRAM, PATIENCE_MS);
    await new Promise((resolve) => setTimeout(resolve));
    const { state, exit_code, reason } = await jobs.find(id);
    assertEquals([state, exit_code, reason], ["Ended", undefined, "the VM has ended"]);
    await jobs.settle();
  }));

Deno.test("jobs of an earlier process have ended with their VM, and the oldest of too many are removed", () =>
  inDir(async (dir) => {
    const before = new Jobs(dir, runnerOf(new Promise(() => {})));
    const { id } = await before.start(PROGRAM, PATIENCE_MS);
    await before.settle();
    const after = new Jobs(dir, runnerOf(Promise.resolve(0)));
    assertEquals((await after.list()).map(({ id, state, reason }) => [id, state, reason]), [
      [id, "Ended", "its VM ended"],
    ]);
    for (let i = 0; i < JOBS_KEPT + 5; i++) {
      const job = await after.start(PROGRAM, PATIENCE_MS);
      await (await after.running(job.id).catch(() => undefined))?.ended;
    }
    await eventually("the oldest are gone", () => Array.from(Deno.readDirSync(dir)).length === JOBS_KEPT);
    const kept = await after.list();
    assertEquals(kept.length, JOBS_KEPT);
    assertEquals(await codeOf(after.find(id)), "job.not_found");
    await after.settle();
  }));

Deno.test("one job more than the limit is refused", () =>
  inDir(async (dir) => {
    const end = Promise.withResolvers<number>();
    const jobs = new Jobs(dir, runnerOf(end.promise));
    for (let i = 0; i < JOBS_RUNNING_MAX; i++) await jobs.start(PROGRAM, PATIENCE_MS);
    assertEquals(await codeOf(jobs.start(PROGRAM, PATIENCE_MS)), "vm.busy");
    end.resolve(0);
    await new Promise((resolve) => setTimeout(resolve));
    await jobs.start(PROGRAM, PATIENCE_MS);
    await jobs.settle();
  }));

Deno.test("a damaged record is left out of the list", () =>
  inDir(async (dir) => {
    const jobs = new Jobs(dir, runnerOf(Promise.resolve(0)));
    const { id } = await jobs.start(PROGRAM, PATIENCE_MS);
    await new Promise((resolve) => setTimeout(resolve));
    await jobs.settle();
    await Deno.writeTextFile(`${jobDir(dir, id)}/job.json`, "{");
    assertEquals(await new Jobs(dir, runnerOf(Promise.resolve(0))).list(), []);
  }));
