/** Many jobs of one VM, and jobs on a disk that is full. */
import { assert, assertEquals } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type JobProgram, type JobRunner, Jobs, JOBS_KEPT } from "../../../../lib/session/job/mod.ts";

const PROGRAM: JobProgram = { argv: ["make"], tty: false };
const PATIENCE_MS = 1000;

/** A guest whose programs write a line and end at once. */
const RUNNER: JobRunner = {
  scrub: (value) => Promise.resolve(value),
  async exec(_, streams) {
    streams.decided("0123456789ab", true);
    await streams.output("stdout", btoa("a line\n"));
    return { exit_code: 3 };
  },
  terminal: () => Promise.reject(new Error("not used")),
};

async function run(jobs: Jobs): Promise<string> {
  const { id } = await jobs.start(PROGRAM, PATIENCE_MS);
  await jobs.running(id).then((job) => job.ended, () => {});
  return id;
}

async function count(dir: string): Promise<number> {
  return (await Array.fromAsync(Deno.readDir(dir))).length;
}

Deno.test("of 200 jobs the last are kept, in memory and on disk", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const jobs = new Jobs(dir, RUNNER);
    let last: string[] = [];
    for (let round = 0; round < 10; round++) {
      last = await Promise.all(Array.from({ length: 20 }, () => run(jobs)));
    }
    const listed = await jobs.list();
    assertEquals(listed.length, JOBS_KEPT);
    assertEquals(listed.filter(({ exit_code }) => exit_code !== 3), []);
    for (const id of last) assert(listed.some((job) => job.id === id), id);
    await jobs.settle();
    // Folders of pruned jobs go once their records are written.
    for (let tries = 0; await count(dir) > JOBS_KEPT && tries < 100; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assertEquals(await count(dir), JOBS_KEPT);
    assertEquals((await new Jobs(dir, RUNNER).list()).length, JOBS_KEPT);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("on a full disk a job runs, or its start says that the disk is full; later ones are whole", async () => {
  if (Deno.uid() !== 0) return;
  const dir = await Deno.makeTempDir();
  const mount = async (...args: string[]) =>
    (await new Deno.Command(args[0], { args: args.slice(1), stderr: "null" }).output()).success;
  try {
    // Few files too: a job's folder may be what the disk has no room for.
    if (!await mount("mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=40", "tmpfs", dir)) return;
    try {
      const jobs = new Jobs(dir, RUNNER);
      const before = await run(jobs);
      for (let file = 0;; file++) {
        try {
          Deno.writeFileSync(`${dir}/filler-${file}`, new Uint8Array(4096));
        } catch {
          break;
        }
      }
      for (let tries = 0; tries < 10; tries++) {
        const failure = await run(jobs).then(() => undefined, (error) => error);
        if (failure) {
          assert(failure instanceof SbxError, `${failure}`);
          assertEquals(failure.code, "disk.full");
        }
      }
      assertEquals((await jobs.find(before)).exit_code, 3);
      for await (const { name } of Deno.readDir(dir)) {
        if (name.startsWith("filler")) Deno.removeSync(`${dir}/${name}`);
      }
      const after = await run(jobs);
      await jobs.settle();
      const again = await new Jobs(dir, RUNNER).list();
      assertEquals(again.find(({ id }) => id === after)?.exit_code, 3);
    } finally {
      await mount("umount", dir);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
