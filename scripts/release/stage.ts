/** Stages of a release, each recorded with the hashes of its inputs and outputs. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { ifFound } from "../../lib/base/error/mod.ts";

/** One step. Paths are relative to the working folder; a folder stands for the files in it. */
export interface Stage {
  name: string;
  /** the files it reads; a change makes it run again */
  inputs: string[];
  /** the files it writes; they are removed before the stage runs */
  outputs: string[];
  /** why there is nothing to do; the stage is recorded as skipped */
  skip?: string;
  run(): Promise<void>;
}

/** The record of a stage that has ended. */
export interface StageRecord {
  name: string;
  state: "done" | "skipped" | "failed";
  /** reason of a failure, or why there was nothing to do */
  detail?: string;
  started_at: string;
  finished_at: string;
  inputs: Record<string, string>;
  outputs: Record<string, string>;
}

/** The record of a release: `release-record.json` of the working folder. */
export interface ReleaseRecord {
  schema: "sbx.release_record.v1";
  version: string;
  commit: string;
  stages: StageRecord[];
}

const NAME = "release-record.json";

/**
 * Runs stages in order. One that is recorded as done with the same inputs, and whose outputs are still the
 * same, is not run again; from the first that runs, all later ones do. The record is written after each.
 *
 * @throws the error of a stage, after it was recorded
 */
export async function runStages(
  work: string,
  { version, commit }: { version: string; commit: string },
  stages: readonly Stage[],
  say: (line: string) => void,
): Promise<ReleaseRecord> {
  const old = await readRecord(work);
  const isSame = old?.version === version && old.commit === commit;
  const record: ReleaseRecord = { schema: "sbx.release_record.v1", version, commit, stages: [] };
  let valid = isSame;
  for (const stage of stages) {
    const before = valid ? old!.stages.find(({ name }) => name === stage.name) : undefined;
    const inputs = await hashesOf(work, stage.inputs);
    if (before && await isUnchanged(work, stage, before, inputs)) {
      say(`${stage.name}: done before`);
      record.stages.push(before);
      continue;
    }
    valid = false;
    const [entry, error] = await runStage(work, stage, inputs, say);
    record.stages.push(entry);
    await writeRecord(work, record);
    if (entry.state === "failed") throw error;
  }
  await writeRecord(work, record);
  return record;
}

async function isUnchanged(
  work: string,
  stage: Stage,
  before: StageRecord,
  inputs: Record<string, string>,
): Promise<boolean> {
  if (before.state === "failed" || (before.state === "skipped") !== (stage.skip !== undefined)) return false;
  const outputs = stage.skip === undefined ? await hashesOf(work, stage.outputs) : {};
  return isEqual(before.inputs, inputs) && isEqual(before.outputs, outputs);
}

async function runStage(
  work: string,
  stage: Stage,
  inputs: Record<string, string>,
  say: (line: string) => void,
): Promise<[StageRecord, unknown]> {
  const { name, skip, outputs } = stage;
  const started_at = new Date().toISOString();
  const end = async (state: StageRecord["state"], detail?: string): Promise<StageRecord> => ({
    name,
    state,
    ...(detail !== undefined && { detail }),
    started_at,
    finished_at: new Date().toISOString(),
    inputs,
    outputs: state === "done" ? await hashesOf(work, outputs) : {},
  });
  if (skip !== undefined) {
    say(`${name}: skipped: ${skip}`);
    return [await end("skipped", skip), undefined];
  }
  say(`${name} …`);
  for (const path of outputs) await ifFound(Deno.remove(join(work, path), { recursive: true }));
  try {
    await stage.run();
    const missing = await missingOf(work, outputs);
    if (missing.length > 0) throw new Error(`it did not write ${missing.join(", ")}`);
    return [await end("done"), undefined];
  } catch (error) {
    return [await end("failed", error instanceof Error ? error.message : String(error)), error];
  }
}

async function missingOf(work: string, paths: readonly string[]): Promise<string[]> {
  const there = await Promise.all(
    paths.map((path) => Deno.stat(join(work, path)).then(() => true, () => false)),
  );
  return paths.filter((_, at) => !there[at]);
}

/** SHA-256 of files, by path; a folder's files one by one. */
export async function hashesOf(work: string, paths: readonly string[]): Promise<Record<string, string>> {
  const hashes: Record<string, string> = {};
  const visit = async (path: string): Promise<void> => {
    const info = await Deno.stat(join(work, path)).catch(() => undefined);
    if (info?.isDirectory) {
      const names = (await Array.fromAsync(Deno.readDir(join(work, path)))).map(({ name }) => name).sort();
      for (const name of names) await visit(`${path}/${name}`);
    } else if (info) {
      const hash = createHash("sha256");
      for await (const chunk of (await Deno.open(join(work, path))).readable) hash.update(chunk);
      hashes[path] = hash.digest("hex");
    }
  };
  for (const path of paths) await visit(path);
  return hashes;
}

function isEqual(a: Record<string, string>, b: Record<string, string>): boolean {
  return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
}

async function readRecord(work: string): Promise<ReleaseRecord | undefined> {
  const text = await Deno.readTextFile(join(work, NAME)).catch(() => undefined);
  return text === undefined ? undefined : JSON.parse(text);
}

async function writeRecord(work: string, record: ReleaseRecord): Promise<void> {
  const path = join(work, NAME);
  await Deno.writeTextFile(`${path}.new`, JSON.stringify(record, null, 2) + "\n");
  await Deno.rename(`${path}.new`, path);
}
