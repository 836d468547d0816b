/** Approved tool definitions per profile (docs/design/contracts/08-mcp.md §8, "Pin"). */
import { SbxError } from "../../base/error/mod.ts";
import { foreignText } from "../name.ts";
import type { ToolDefinition } from "../schema.ts";
import { type PinChange, pinHash } from "./change.ts";
import { dirname } from "node:path";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";

/** A tool as listed by its server. */
export interface ListedTool {
  definition: ToolDefinition;
  /** its {@linkcode pinHash} */
  hash: string;
}

/** Result of comparing a list with the pins. */
export interface PinCheck {
  /** names of the tools that are held back */
  heldTools: Set<string>;
  /** changes seen for the first time; each raises a finding */
  newChanges: PinChange[];
}

/**
 * The pins of one profile, shared by all processes that run it. A tool is pinned when it is first seen; a
 * later change is held back until it is approved.
 */
export class PinStore {
  readonly #path: string;
  readonly #now: () => Date;

  /** @param path JSON file of the profile; need not exist */
  constructor(path: string, now: () => Date = () => new Date()) {
    this.#path = path;
    this.#now = now;
  }

  /**
   * Compares a server's list with the pins, and pins new tools.
   *
   * @throws {SbxError} `mcp.pins.unreadable`, `mcp.pins.busy`
   */
  check(server: string, listed: ListedTool[]): Promise<PinCheck> {
    return updatePins(this.#path, (file) => {
      const before = JSON.stringify(file.changes.filter((change) => change.server === server));
      const { heldTools, newChanges, isPinAdded } = this.#compare(file, server, listed);
      const after = JSON.stringify(file.changes.filter((change) => change.server === server));
      return { result: { heldTools, newChanges }, isNew: isPinAdded || before !== after };
    });
  }

  /** Changes that wait for approval. @throws {SbxError} `mcp.pins.unreadable` */
  async changes(): Promise<PinChange[]> {
    return (await readPins(this.#path)).changes;
  }

  /**
   * Approves the latest definition of a tool.
   *
   * @param shown hash of the definition that the person read
   * @throws {SbxError} `mcp.pin.not_found`: the tool has no change that waits for approval;
   * `mcp.pin.changed`: it has changed once more
   */
  approve(server: string, tool: string, shown: string): Promise<PinChange> {
    return updatePins(this.#path, (file) => {
      const at = file.changes.findIndex((change) => change.server === server && change.tool === tool);
      if (at < 0) {
        throw new SbxError("mcp.pin.not_found", `${server}__${tool} has no change that waits for approval`, {
          hint: "sbx mcp diff lists the tools that have one",
        });
      }
      if (file.changes[at].after_hash !== shown) {
        throw new SbxError(
          "mcp.pin.changed",
          `${server}__${foreignText(tool, 64)} has changed since it was shown`,
          {
            hint: "sbx mcp diff shows it as it is now",
          },
        );
      }
      const [change] = file.changes.splice(at, 1);
      const pins = pinsOf(file, server);
      if (change.kind === "renamed") delete pins[change.before.name];
      pins[tool] = this.#pin(change.after, change.after_hash);
      return { result: change, isNew: true };
    });
  }

  #compare(file: PinFile, server: string, listed: ListedTool[]): PinCheck & { isPinAdded: boolean } {
    const pins = pinsOf(file, server);
    const pending = new Map(
      file.changes.filter((change) => change.server === server).map((change) => [change.tool, change]),
    );
    const names = new Set(listed.map(({ definition }) => definition.name));
    const missing = Object.values(pins).filter(({ definition }) => !names.has(definition.name));
    const check = { heldTools: new Set<string>(), newChanges: [] as PinChange[], isPinAdded: false };
    for (const { definition, hash } of listed) {
      const { name } = definition;
      const pin = Object.hasOwn(pins, name) ? pins[name] : undefined;
      const previous = pin ?? missing.find((other) => isRenamed(other.definition, definition));
      if (pin?.hash === hash) pending.delete(name);
      else if (previous) {
        check.heldTools.add(name);
        if (pending.get(name)?.after_hash === hash) continue;
        const change = this.#change(server, previous, definition, hash);
        pending.set(name, change);
        check.newChanges.push(change);
      } else {
        pins[name] = this.#pin(definition, hash);
        check.isPinAdded = true;
      }
    }
    file.changes = [...file.changes.filter((change) => change.server !== server), ...pending.values()];
    return check;
  }

  #change(server: string, { definition, hash }: Pin, after: ToolDefinition, after_hash: string): PinChange {
    return {
      server,
      tool: after.name,
      kind: definition.name === after.name ? "changed" : "renamed",
      before: definition,
      after,
      before_hash: hash,
      after_hash,
      seen_at: this.#now().toISOString(),
    };
  }

  #pin(definition: ToolDefinition, hash = pinHash(definition)): Pin {
    return { hash, definition, approved_at: this.#now().toISOString() };
  }
}

/** Pins of one server, without a prototype: a tool may be named like one of its members. */
function pinsOf(file: PinFile, server: string): Record<string, Pin> {
  if (!Object.hasOwn(file.pins, server)) file.pins[server] = {};
  return file.pins[server] = Object.assign(Object.create(null), file.pins[server]);
}

// File with the pins of one profile.

/** Approved definition of a tool. */
interface Pin {
  hash: string;
  definition: ToolDefinition;
  /** ISO 8601 */
  approved_at: string;
}

interface PinFile {
  version: 1;
  /** server → tool → pin */
  pins: Record<string, Record<string, Pin>>;
  /** changes that wait for approval */
  changes: PinChange[];
}

/** `ms` to wait for another process that has locked the file. */
const LOCK_MS = 5000;

/** @throws {SbxError} `mcp.pins.unreadable`: without the file no tool counts as approved */
async function readPins(path: string): Promise<PinFile> {
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
async function updatePins<T>(
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

/** Similarity at which a new tool counts as a renamed one that disappeared. */
const NEAR_EQUAL = 0.8;

/**
 * Tests whether two tools differ in little but their names. Compares the words of
 * descriptions and schemas (Dice).
 */
function isRenamed(before: ToolDefinition, after: ToolDefinition): boolean {
  const schemas = similarity(
    words(canonicalJson(before.input_schema)),
    words(canonicalJson(after.input_schema)),
  );
  if (schemas < NEAR_EQUAL) return false;
  // Many tools take the same arguments, or none; then the descriptions decide.
  const texts = similarity(words(before.description), words(after.description));
  return texts >= NEAR_EQUAL || (schemas === 1 && hasProperties(after) && texts >= NEAR_EQUAL / 2);
}

function hasProperties({ input_schema }: ToolDefinition): boolean {
  const { properties } = input_schema;
  return typeof properties === "object" && properties !== null && Object.keys(properties).length >= 2;
}

function words(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [word] of text.toLowerCase().matchAll(/[\p{L}\p{N}_]+/gu)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/** Dice coefficient, 0 to 1: twice the common words over all words. */
function similarity(a: Map<string, number>, b: Map<string, number>): number {
  let common = 0;
  for (const [word, count] of a) common += Math.min(count, b.get(word) ?? 0);
  const all = sum(a) + sum(b);
  return all === 0 ? 1 : 2 * common / all;
}

function sum(counts: Map<string, number>): number {
  let all = 0;
  for (const count of counts.values()) all += count;
  return all;
}
