import { parse, TomlError } from "smol-toml";
import { SbxError } from "../base/error/mod.ts";
import { scanKeys, type TomlKey } from "./scan.ts";

/** A place in a file; both count from 1. */
export interface Position {
  line: number;
  column: number;
}

/** A TOML text with its values, and with the place of each key. */
export class TomlDocument {
  #keys?: TomlKey[];
  #byPath?: Map<string, TomlKey>;

  constructor(
    /** the file that it came from, as messages name it */
    readonly path: string,
    readonly text: string,
    /** the root table */
    readonly value: Record<string, unknown>,
  ) {}

  /** Every key in the order of the text, found on first use: only errors, explanations and edits ask. */
  get keys(): readonly TomlKey[] {
    return this.#keys ??= scanKeys(this.text);
  }

  /** The key, table header or array element at exactly `path`. */
  find(path: readonly PropertyKey[]): TomlKey | undefined {
    this.#byPath ??= indexByPath(this.keys);
    return this.#byPath.get(joinPath(path));
  }

  /** Where `path` is written, or else where the nearest table around it begins. */
  positionOf(path: readonly PropertyKey[]): Position {
    for (let length = path.length; length > 0; length--) {
      const key = this.find(path.slice(0, length)) ?? this.#firstWithin(path.slice(0, length));
      if (key) return { line: key.line, column: key.column };
    }
    return { line: 1, column: 1 };
  }

  /** The first key below a table that has no header of its own, such as `a` in `[a.b]`. */
  #firstWithin(path: readonly PropertyKey[]): TomlKey | undefined {
    return this.keys.find((key) => path.every((segment, index) => key.path[index] === String(segment)));
  }

  /** Where `path` is written, as `file:line`. */
  placeOf(path: readonly PropertyKey[]): string {
    return `${this.path}:${this.positionOf(path).line}`;
  }
}

/** The line on which `path` is written in a valid TOML text; undefined if it is not there. */
export function lineOf(text: string, path: readonly PropertyKey[]): number | undefined {
  return indexByPath(scanKeys(text)).get(joinPath(path))?.line;
}

/**
 * Parses TOML text.
 *
 * @param path names the text in messages
 * @throws {SbxError} `toml.invalid`, its message begins with `path:line:column`
 */
export function parseToml(text: string, path: string): TomlDocument {
  const nul = text.indexOf("\0");
  if (nul >= 0) throw invalid(text, path, nul, "a NUL character");
  let value: Record<string, unknown>;
  try {
    value = parse(text);
  } catch (cause) {
    const { line, column } = cause instanceof TomlError ? cause : { line: 1, column: 1 };
    throw new SbxError("toml.invalid", `${path}:${line}:${column}: ${reasonOf(cause)}`, {
      cause,
      hint: "correct that line",
    });
  }
  // The parser lets days roll over into the next month, whatever the month's length is (docs/toml.md).
  if (ROLLING_DAY.test(text)) refuseRollingDays(text, path);
  return new TomlDocument(path, text, value);
}

const ROLLING_DAY = /\d{4}-(?:02-(?:29|30|31)|(?:04|06|09|11)-31)/;

function refuseRollingDays(text: string, path: string) {
  scanKeys(text, (date, offset) => {
    const [year, month, day] = date.split("-").map(Number);
    // Day 0 of the next month is the last of this one.
    const last = new Date(0);
    last.setUTCFullYear(year, month, 0);
    if (day > last.getUTCDate()) throw invalid(text, path, offset, `${date} is not a day of the calendar`);
  });
}

function invalid(text: string, path: string, offset: number, what: string): SbxError {
  const before = text.slice(0, offset).split("\n");
  return new SbxError("toml.invalid", `${path}:${before.length}:${before.at(-1)!.length + 1}: ${what}`, {
    hint: "correct that line",
  });
}

/** What the parser found, in one line and in our words where its own mislead. */
function reasonOf(error: unknown): string {
  if (!(error instanceof TomlError)) return "this is not TOML";
  const reason = error.message.split("\n", 1)[0].replace(/^Invalid TOML document: /, "");
  if (reason.startsWith("trying to redefine")) return "this key or table is defined twice";
  if (reason.includes("losslessly")) return "an integer beyond ±(2^53 − 1)";
  if (reason.includes("excessively nested")) return "nested too deep";
  return `not valid TOML: ${reason}`;
}

function indexByPath(keys: readonly TomlKey[]): Map<string, TomlKey> {
  const index = new Map<string, TomlKey>();
  for (const key of keys) {
    const path = joinPath(key.path);
    if (!index.has(path)) index.set(path, key);
  }
  return index;
}

/** NUL cannot stand in a TOML text, so it separates keys without ambiguity (an escaped one is as good as absent). */
function joinPath(path: readonly PropertyKey[]): string {
  return path.map(String).join("\0");
}
