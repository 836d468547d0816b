import { basename, dirname, join, resolve } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { LedgerWitness } from "./schema.ts";

/** Folder of the heads that a home's service has witnessed. */
export function witnessFolder({ dir }: { dir: string }): string {
  return join(dir, "record", "heads");
}

export function witnessPath(home: { dir: string }, sessionId: string): string {
  return join(witnessFolder(home), `${sessionId}.json`);
}

/**
 * Reads the heads that the service has witnessed of a session.
 *
 * @returns `undefined`: none, as of a session of an older sbx
 * @throws {SbxError} `witness.damaged`
 */
export async function readWitness(
  home: { dir: string },
  sessionId: string,
): Promise<LedgerWitness | undefined> {
  const path = witnessPath(home, sessionId);
  const text = await ifFound(Deno.readTextFile(path));
  return text === undefined ? undefined : parseWitness(text, path, sessionId);
}

/** As {@linkcode readWitness}. */
export function readWitnessSync(home: { dir: string }, sessionId: string): LedgerWitness | undefined {
  const path = witnessPath(home, sessionId);
  try {
    return parseWitness(Deno.readTextFileSync(path), path, sessionId);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/**
 * The heads that the service has witnessed of the record at a path; of a copy, which may be older, none.
 * @throws {SbxError} `witness.damaged`
 */
export async function witnessOfFile(home: { dir: string }, path: string): Promise<LedgerWitness | undefined> {
  const sessionId = basename(dirname(resolve(path)));
  const isInPlace = resolve(path) === resolve(home.dir, "ledgers", sessionId, "session.db");
  return isInPlace ? await readWitness(home, sessionId) : undefined;
}

function parseWitness(text: string, path: string, sessionId: string): LedgerWitness {
  let cause: unknown;
  try {
    const witness = LedgerWitness.parse(JSON.parse(text));
    if (witness.session_id === sessionId) return witness;
  } catch (error) {
    cause = error;
  }
  throw new SbxError("witness.damaged", `${path} does not have the heads of session ${sessionId}`, {
    cause,
    hint: "it proves nothing any more; remove it once you know why it was damaged",
  });
}
