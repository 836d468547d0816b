/** The pins of one profile as a file. */
import { dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import type { ToolDefinition } from "../entry.ts";
import type { PinChange } from "./change.ts";

/** What is remembered of a tool. */
export interface Pin {
  hash: string;
  definition: ToolDefinition;
  /** ISO 8601 */
  approved_at: string;
}

export interface PinFile {
  version: 1;
  /** server → tool → pin */
  pins: Record<string, Record<string, Pin>>;
  /** what waits for approval */
  changes: PinChange[];
}

/** Longest wait for another process that has the file. */
const LOCK_MS = 5000;

/** @throws {SbxError} `mcp.pins.unreadable`: what was approved is not known, so nothing can be taken for approved */
export async function readPins(path: string): Promise<PinFile> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return { version: 1, pins: Object.create(null), changes: [] };
    throw unreadable(path, cause);
  }
  try {
    const file = JSON.parse(text) as PinFile;
    const isKnown = file.version === 1 && typeof file.pins === "object" && Array.isArray(file.changes);
    // Names of servers are anybody's: the object has no prototype that could be one of them.
    if (isKnown) return { ...file, pins: Object.assign(Object.create(null), file.pins) };
  } catch (cause) {
    throw unreadable(path, cause);
  }
  throw unreadable(path);
}

/** Reads, changes and writes the file while no other process does; `change` says whether anything is to be written. */
export async function updatePins<T>(
  path: string,
  change: (file: PinFile) => { result: T; isNew: boolean },
): Promise<T> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  using lock = await Deno.open(`${path}.lock`, { write: true, create: true, mode: 0o600 });
  if (!await lockWithin(lock, LOCK_MS)) {
    throw new SbxError("mcp.pins.busy", `another process has kept ${path} for ${LOCK_MS / 1000} s`, {
      hint: "try again",
    });
  }
  const file = await readPins(path);
  const { result, isNew } = change(file);
  if (isNew) await writeAtomic(path, JSON.stringify(file));
  return result;
}

function unreadable(path: string, cause?: unknown): SbxError {
  return new SbxError("mcp.pins.unreadable", `the approved MCP tools in ${path} cannot be read`, {
    cause,
    hint: "restore it, or remove it to approve all tools as they are now",
  });
}
