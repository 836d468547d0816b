/** Measurements that a guest and its host make with the same code, so that their ratio means something. */
import { type MeasureName, MEASURES, type Measures } from "./report.ts";

/** Places that differ between guest and host. */
export interface BenchPlaces {
  /** folder on the workspace's disk */
  workspace: string;
  /** folder on the machine's own disk */
  own: string;
  /** makes one request on a new connection and reads its whole answer */
  request(): Promise<void>;
}

export interface BenchOptions {
  /** absent: all */
  only?: readonly MeasureName[];
  /** programs that are started */
  runs?: number;
}

const CPU_STEPS = 10_000_000;
const COPIED_BYTES = 256 * 1024 * 1024;
const COPY_BYTES = 16 * 1024 * 1024;
const WRITTEN_BYTES = 16 * 1024 * 1024;
const WRITE_BYTES = 1024 * 1024;
const SMALL_FILES = 100;
const SMALL_BYTES = 4096;
const REQUESTS = 10;
export const RUNS_DEFAULT = 30;

/**
 * Makes measurements one after the other.
 * @returns `ms` by name; of processes, files and requests per piece
 */
export async function measure(
  places: BenchPlaces,
  { only = Object.keys(MEASURES) as MeasureName[], runs = RUNS_DEFAULT }: BenchOptions = {},
): Promise<Partial<Measures>> {
  const works: Record<MeasureName, () => Promise<number>> = {
    cpu: () => timed(count),
    memory: () => timed(copy),
    workspace_write: () => inFolder(places.workspace, write),
    workspace_files: () => inFolder(places.workspace, writeSmall),
    own_write: () => inFolder(places.own, write),
    own_files: () => inFolder(places.own, writeSmall),
    process: () => repeated(runs, startProgram),
    network: () => repeated(REQUESTS, places.request),
  };
  const measures: Partial<Measures> = {};
  for (const name of only) measures[name] = await works[name]();
  return measures;
}

async function timed(work: () => unknown): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** Mean of all runs after a first one: a guest's clock may tick every 4 ms, which is longer than one run. */
async function repeated(runs: number, work: () => Promise<unknown>): Promise<number> {
  await work();
  const ms = await timed(async () => {
    for (let i = 0; i < runs; i++) await work();
  });
  return ms / runs;
}

/** Integer arithmetic; its result is used, so that no compiler leaves it out. */
function count(): void {
  let value = 2463534242;
  for (let i = 0; i < CPU_STEPS; i++) {
    value ^= value << 13;
    value ^= value >>> 17;
    value ^= value << 5;
  }
  if (value === 0) throw new Error("xorshift has no zero");
}

function copy(): void {
  const [from, to] = [new Uint8Array(COPY_BYTES).fill(1), new Uint8Array(COPY_BYTES)];
  for (let copied = 0; copied < COPIED_BYTES; copied += COPY_BYTES) to.set(from);
}

async function inFolder(parent: string, work: (folder: string) => Promise<number>): Promise<number> {
  const folder = await Deno.makeTempDir({ dir: parent, prefix: ".sbx-bench-" });
  try {
    return await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Writes one file and waits until it is on the disk. */
function write(folder: string): Promise<number> {
  const piece = new Uint8Array(WRITE_BYTES).fill(7);
  return timed(async () => {
    using file = await Deno.open(`${folder}/file`, { write: true, create: true });
    for (let written = 0; written < WRITTEN_BYTES;) written += await file.write(piece);
    await file.sync();
  });
}

/** Creates, reads and removes small files. @returns `ms` per file */
async function writeSmall(folder: string): Promise<number> {
  const piece = new Uint8Array(SMALL_BYTES).fill(7);
  const ms = await timed(async () => {
    for (let i = 0; i < SMALL_FILES; i++) await Deno.writeFile(`${folder}/${i}`, piece);
    for (let i = 0; i < SMALL_FILES; i++) await Deno.readFile(`${folder}/${i}`);
    for (let i = 0; i < SMALL_FILES; i++) await Deno.remove(`${folder}/${i}`);
  });
  return ms / SMALL_FILES;
}

async function startProgram(): Promise<void> {
  await new Deno.Command("true", { stdin: "null", stdout: "piped", stderr: "piped" }).output();
}
