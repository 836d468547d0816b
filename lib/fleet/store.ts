/**
 * The store of a fleet: a folder with segments, reports and machines, which several receivers may share
 * (docs/design/contracts/12-ledger.md §12).
 */
import { dirname, join } from "node:path";
import type { SegmentHeader } from "./segment/schema.ts";
import { ignore, SbxError } from "../base/error/mod.ts";
import { writeAll } from "../base/wire/mod.ts";

/** Paths of a store. */
export function storePaths(dir: string) {
  return {
    machines: join(dir, "machines"),
    tokens: join(dir, "tokens"),
    /** reserved names of machines */
    names: join(dir, "names"),
    segments: join(dir, "segments"),
    reports: join(dir, "reports"),
    problems: join(dir, "problems"),
    parts: join(dir, "parts"),
    /** findings of hunts */
    findings: join(dir, "findings"),
    /** signed statements of erasures and exports */
    statements: join(dir, "statements"),
    /** bodies of uploads, until they are verified */
    incoming: join(dir, "incoming"),
  };
}

/** Folder of the segments of one session. */
export function sessionFolder(dir: string, machineId: string, sessionId: string): string {
  return join(storePaths(dir).segments, machineId, sessionId);
}

/** Name of a segment's file: where it begins. Two segments that begin at one position cannot both be kept. */
export function segmentName({ from }: Pick<SegmentHeader, "from">): string {
  return [from.events, from.outcomes, from.journal].map((at) => String(at).padStart(12, "0")).join("-") +
    ".seg";
}

/** Parses the name of a segment's file. */
export function positionOf(name: string): { events: number; outcomes: number; journal: number } | undefined {
  const match = /^(\d{12})-(\d{12})-(\d{12})\.seg$/.exec(name);
  if (!match) return undefined;
  return { events: Number(match[1]), outcomes: Number(match[2]), journal: Number(match[3]) };
}

/**
 * Slot of the first report that a machine is alive: earlier entries of its register are
 * of the time without a collector.
 */
export const FIRST = "first";

/**
 * File of a report. A machine has one of each kind, or of each kind and session: the last one counts. Of
 * an entry of its register, the first one counts; the first one that the machine is alive is kept too,
 * in the slot {@linkcode FIRST}.
 */
export function reportPath(
  dir: string,
  machineId: string,
  { kind, slot = "" }: { kind: string; slot?: string },
): string {
  const name = slot === "" ? kind : `${kind}-${slot}`;
  return join(storePaths(dir).reports, machineId, `${name}.json`);
}

/**
 * Writes a file unless its name exists; all of it or nothing, also when the disk is full or the program is
 * killed.
 *
 * @returns false if there is one
 * @throws {SbxError} `fleet.store.unavailable`
 */
export async function keepFile(path: string, data: Uint8Array): Promise<boolean> {
  const temporary = join(dirname(path), `.${crypto.randomUUID()}.part`);
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
    await writeAll(file, data);
    await file.syncData();
    // A link to an existing name fails: the first of two writers wins.
    await Deno.link(temporary, path);
    // The name too must outlive a power cut: acknowledged content is not sent again.
    using folder = await Deno.open(dirname(path));
    await folder.sync();
    return true;
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) return false;
    throw new SbxError("fleet.store.unavailable", `the store cannot keep ${path}`, {
      cause,
      hint: "free some space, or check the permissions of the folder; machines send the rest again",
    });
  } finally {
    await Deno.remove(temporary).catch(ignore("no one reads a leftover"));
  }
}

/** Keeps a report that a machine is alive, if it is the first one. */
export async function keepFirst(dir: string, machineId: string, data: Uint8Array): Promise<void> {
  const path = reportPath(dir, machineId, { kind: "alive", slot: FIRST });
  // Nearly every one comes later, and costs no write.
  if (await Deno.lstat(path).catch(() => undefined) === undefined) await keepFile(path, data);
}

/** Names in a folder; none if it is missing. */
export async function namesIn(dir: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(dir))).map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
