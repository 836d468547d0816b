/**
 * A snapshot of 50,000 unchanged files, beside `find` with the metadata of each; and of 1,000 changed ones
 * among them, beside reading and writing those. Medians of paired rounds. Prints one JSON object.
 */
import { cpuUsage } from "node:process";
import { SnapshotStore } from "../../lib/machine/snapshot/mod.ts";
import { runChild } from "../helper/child.ts";

const FILES = 50_000;
const PER_FOLDER = 100;
const CHANGED = 1_000;
const ROUNDS = 5;
const CONTENT = "content of a source file\n".repeat(40);

const base = await Deno.makeTempDir();
const [workspace, dir, copies] = ["workspace", "snapshots", "copies"].map((name) => `${base}/${name}`);
const pathOf = (i: number) => `${workspace}/d${Math.floor(i / PER_FOLDER)}/f${i}`;

async function timed(work: () => Promise<unknown> | unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** `ms` that this process computed, on however busy a machine. */
async function computed(work: () => Promise<unknown>): Promise<number> {
  const start = cpuUsage();
  await work();
  const { user, system } = cpuUsage(start);
  return (user + system) / 1000;
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1];

try {
  for (const path of [workspace, dir, copies]) await Deno.mkdir(path);
  for (let i = 0; i < FILES; i++) {
    if (i % PER_FOLDER === 0) await Deno.mkdir(`${workspace}/d${i / PER_FOLDER}`);
    Deno.writeTextFileSync(pathOf(i), `${i} ${CONTENT}`);
  }
  const store = new SnapshotStore(dir, workspace);
  const create = () => store.create({ kind: "auto", limits: { auto: 100, manual: 1 } });
  const first = await timed(create);
  // Past the age at which the times of files are believed.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await store.create({ kind: "manual", limits: { auto: 100, manual: 1 } });
  const rounds = {
    unchanged: [] as number[],
    find: [] as number[],
    changed: [] as number[],
    copy: [] as number[],
    cpu: [] as number[],
  };
  for (let round = 0; round < ROUNDS; round++) {
    rounds.find.push(
      await timed(() => runChild("find", { args: [workspace, "-printf", "%p %y %m %s %T@ %C@ %i %D\n"] })),
    );
    rounds.unchanged.push(await timed(create));
    rounds.cpu.push(await computed(create));
    const chosen = Array.from({ length: CHANGED }, (_, i) => pathOf((i * (FILES / CHANGED) + round) % FILES));
    for (const path of chosen) Deno.writeTextFileSync(path, `${round} ${CONTENT}`);
    rounds.copy.push(
      await timed(() => {
        for (const [i, path] of chosen.entries()) {
          Deno.writeFileSync(`${copies}/${round}-${i}`, Deno.readFileSync(path));
        }
      }),
    );
    rounds.changed.push(await timed(create));
    await new Promise((resolve) => setTimeout(resolve, 2500));
    // Those of this round are read once more, as they were new; the next round has none.
    await store.create({ kind: "auto", limits: { auto: 100, manual: 1 } });
  }
  const { unchanged, find, changed, copy, cpu } = {
    unchanged: median(rounds.unchanged),
    find: median(rounds.find),
    changed: median(rounds.changed),
    copy: median(rounds.copy),
    cpu: median(rounds.cpu),
  };
  console.log(JSON.stringify({
    bench: "snapshot",
    files: FILES,
    first_ms: first,
    unchanged_ms: unchanged,
    unchanged_cpu_ms: cpu,
    find_ms: find,
    ratio: unchanged / find,
    changed: CHANGED,
    changed_more_ms: changed - unchanged,
    copy_ms: copy,
    changed_ratio: (changed - unchanged) / copy,
    target: { unchanged_ms: 1000, changed_more_ms: 300 },
  }));
} finally {
  await Deno.remove(base, { recursive: true });
}
