/** File with the pins of one profile. */
import { dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import type { ToolDefinition } from "../entry.ts";
import type { PinChange } from "./change.ts";

/** Approved definition of a tool. */
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
  /** changes that wait for approval */
  changes: PinChange[];
}

/** `ms` to wait for another process that has locked the file. */
const LOCK_MS = 5000;

/** @throws {SbxError} `mcp.pins.unreadable`: without the file no tool counts as approved */
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
    const isValid = file.version === 1 && typeof file.pins === "object" && Array.isArray(file.changes);
    // No prototype: a server may be named like one of its members.
    if (isValid) return { ...file, pins: Object.assign(Object.create(null), file.pins) };
  } catch (cause) {
    throw unreadable(path, cause);
  }
  throw unreadable(path);
}

/**
 * Reads, changes and writes the file under a lock.
 *
 * @param change returns `isNew` when the file has to be written
 */
export async function updatePins<T>(
  path: string,
  change: (file: PinFile) => { result: T; isNew: boolean },
): Promise<T> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  using lock = await Deno.open(`${path}.lock`, { write: true, create: true, mode: 0o600 });
  if (!await lockWithin(lock, LOCK_MS)) {
    throw new SbxError("mcp.pins.busy", `another process has locked ${path} for ${LOCK_MS / 1000} s`, {
      hint: "try again",
    });
  }
  const file = await readPins(path);
  const { result, isNew } = change(file);
  if (isNew) await writeAtomic(path, JSON.stringify(file));
  return result;
}

function unreadable(path: string, cause?: unknown): SbxError {
  return new SbxError("mcp.pins.unreadable", `cannot read the approved MCP tools in ${path}`, {
    cause,
    hint: "restore the file, or remove it to approve all tools as they are now",
  });
}
