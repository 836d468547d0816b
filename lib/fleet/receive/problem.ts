/** Problems a receiver noticed and refused: kept beside the evidence, for `sbx-admin fleet verify`. */
import { join } from "node:path";
import { blake3 } from "../../base/hash/mod.ts";
import { keepFile, storePaths } from "../store/mod.ts";

export interface Problem {
  at: string;
  kind: "fork" | "gap" | "refused" | "went_back" | "vanished";
  machine_id: string;
  session_id?: string;
  detail: string;
}

/** Most problems kept of one machine: a hostile one must not fill the disk. */
const PROBLEMS_MAX = 1000;

/** Keeps a problem, once for the same words. */
export async function keepProblem(dir: string, problem: Omit<Problem, "at">): Promise<void> {
  const folder = join(storePaths(dir).problems, problem.machine_id);
  let count = 0;
  try {
    for await (const _ of Deno.readDir(folder)) if (++count >= PROBLEMS_MAX) return;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const name = blake3(JSON.stringify(problem)).slice(0, 32);
  const text = JSON.stringify({ at: new Date().toISOString(), ...problem }) + "\n";
  await keepFile(join(folder, `${name}.json`), new TextEncoder().encode(text));
}

export async function readProblems(dir: string, machineId: string): Promise<Problem[]> {
  const folder = join(storePaths(dir).problems, machineId);
  const problems: Problem[] = [];
  try {
    for await (const { name } of Deno.readDir(folder)) {
      if (name.endsWith(".json")) problems.push(JSON.parse(await Deno.readTextFile(join(folder, name))));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return problems.sort((a, b) => a.at < b.at ? -1 : 1);
}
