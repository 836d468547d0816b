import { parse, TomlError } from "smol-toml";
import { SbxError } from "../error/mod.ts";
import { isObject } from "../object/mod.ts";
import { scanKeys, type TomlKey } from "./scan.ts";

/** Position in a file, counted from 1. */
export interface Position {
  line: number;
  column: number;
}

/** TOML text with its values and the position of each key. */
export class TomlDocument {
  #keys?: TomlKey[];
  #byPath?: Map<string, TomlKey>;

  constructor(
    /** file name for messages */
    readonly path: string,
    readonly text: string,
    /** the root table */
    readonly value: Record<string, unknown>,
  ) {}

  /** Every key in text order. Scanned on first use: only errors, explanations and edits need it. */
  get keys(): readonly TomlKey[] {
    return this.#keys ??= scanKeys(this.text);
  }

  /** The key, table header or array element at exactly `path`. */
  find(path: readonly PropertyKey[]): TomlKey | undefined {
    this.#byPath ??= indexByPath(this.keys);
    return this.#byPath.get(joinPath(path));
  }

  /** Position of `path`, or else of the nearest table around it. */
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

  /** Position of `path` as `file:line`. */
  placeOf(path: readonly PropertyKey[]): string {
    return `${this.path}:${this.positionOf(path).line}`;
  }
}

/** Line of `path` in a valid TOML text; undefined for an absent path. */
export function lineOf(text: string, path: readonly PropertyKey[]): number | undefined {
  return indexByPath(scanKeys(text)).get(joinPath(path))?.line;
}

/**
 * Parses TOML text.
 *
 * @param path file name for messages
 * @throws {SbxError} `toml.invalid`; the message begins with `path:line:column`
 */
export function parseToml(text: string, path: string): TomlDocument {
  const nul = text.indexOf("\0");
  if (nul >= 0) throw invalidError(text, path, nul, "NUL character");
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
  // The parser accepts any day up to 31 and rolls it over into the next month (docs/design/toml.md).
  if (ROLLING_DAY.test(text)) rejectRollingDays(text, path);
  return new TomlDocument(path, text, value);
}

/** Dates past the end of a short month. */
const ROLLING_DAY = /\d{4}-(?:02-(?:29|30|31)|(?:04|06|09|11)-31)/;

function rejectRollingDays(text: string, path: string) {
  scanKeys(text, (date, offset) => {
    const [year, month, day] = date.split("-").map(Number);
    // Day 0 of the next month is the last day of this one.
    const last = new Date(0);
    last.setUTCFullYear(year, month, 0);
    if (day > last.getUTCDate()) throw invalidError(text, path, offset, `${date} is not a calendar date`);
  });
}

function invalidError(text: string, path: string, offset: number, problem: string): SbxError {
  const before = text.slice(0, offset).split("\n");
  return new SbxError("toml.invalid", `${path}:${before.length}:${before.at(-1)!.length + 1}: ${problem}`, {
    hint: "correct that line",
  });
}

/** Parse error in one line, reworded if the parser's own text misleads. */
function reasonOf(error: unknown): string {
  if (!(error instanceof TomlError)) return "not valid TOML";
  const reason = error.message.split("\n", 1)[0].replace(/^Invalid TOML document: /, "");
  if (reason.startsWith("trying to redefine")) return "this key or table is defined twice";
  if (reason.includes("losslessly")) return "integer beyond ±(2^53 − 1)";
  if (reason.includes("excessively nested")) return "nested too deep";
  return `not valid TOML: ${reason}`;
}

/** True for a table of a parsed document; dates are objects too, but not tables. */
export function isTable(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !(value instanceof Date);
}

function indexByPath(keys: readonly TomlKey[]): Map<string, TomlKey> {
  const index = new Map<string, TomlKey>();
  for (const key of keys) {
    const path = joinPath(key.path);
    if (!index.has(path)) index.set(path, key);
  }
  return index;
}

/** Joins a path with NUL, which raw TOML text cannot contain (an escaped one is ignored). */
function joinPath(path: readonly PropertyKey[]): string {
  return path.map(String).join("\0");
}
