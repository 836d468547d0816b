/**
 * Shape of an event: its text in the ledger, without the values that a record copies or ignores. Records of
 * events of one shape differ only in copied values, and a text is compared with a shape without parsing it.
 */
import { EVENT_FAMILIES, type EventFamily } from "../../event/mod.ts";
import { EXPORTED_FIELDS } from "../sink/mod.ts";

/** Longest value that is copied, in characters: a record never cuts one this short, even as escapes. */
export const COPY_MAX = 170;
/** Most digits of a number that is copied: up to here, JavaScript writes it as it was read. */
const DIGITS_MAX = 15;

/** Use of a value: `keep` as part of the shape, copy as plain `text` or `number`, `skip` as irrelevant. */
type Use = "keep" | "text" | "number" | "skip";

/** Uses by key; `rest` is the use of every other key. */
interface Table {
  keys: Map<string, Use | Table>;
  rest: Use | Table;
}

function table(rest: Use | Table, keys: Record<string, Use | Table> = {}): Table {
  return { keys: new Map(Object.entries(keys)), rest };
}

/** Fields that records take over unchanged, whatever their values, as `family.field`. */
const COPIED: Record<string, "text" | "number"> = {
  "http.path": "text",
  "http.bytes": "number",
  "dns.qname": "text",
  "db.bytes": "number",
  "sign.digest": "text",
  "sign.object": "text",
  "sign.bytes": "number",
  "model.input_tokens": "number",
  "model.cached_input_tokens": "number",
  "model.output_tokens": "number",
  "file.path": "text",
  "file.name": "text",
  "file.byte_count": "number",
  "process.command": "text",
};

function partOf(family: EventFamily, hashed: ReadonlySet<string>): Table {
  const fields = EXPORTED_FIELDS[family].map((field) => {
    const name = `${family}.${field}`;
    return [field, hashed.has(name) ? "keep" : COPIED[name] ?? "keep"] as const;
  });
  return table("skip", Object.fromEntries(fields));
}

const COMMON = table("keep", {
  event_id: "text",
  labels: "skip",
  process: table("keep", { pid: "number", ppid: "number" }),
  sequence: "number",
  timestamp_unix_ms: "number",
  trace_id: "skip",
});

/** Tables of a sink. */
export interface ShapeTables {
  event: Table;
  outcomes: Map<string, Table>;
}

/** @param hashed fields, as `family.field`, whose values are replaced by others */
export function shapeTables(hashed: ReadonlySet<string>): ShapeTables {
  const parts = EVENT_FAMILIES.map((family) => [family, partOf(family, hashed)] as const);
  return {
    event: table("keep", {
      common: COMMON,
      ...Object.fromEntries(parts.map(([family, part]) => [family, table(part)])),
    }),
    outcomes: new Map(parts.map(([family, response]) => [
      family,
      table("keep", {
        decision: table("skip", { decision: "keep", rule: table("skip", { id: "keep" }) }),
        duration_ms: "skip",
        event_id: "skip",
        first_byte_ms: "skip",
        number: "skip",
        response,
        streamed_bytes: "skip",
      }),
    ])),
  };
}

/** Place of a value within a shape. */
export interface Gap {
  use: "text" | "number" | "skip";
  /** key of the value */
  name: string;
  /** place in the text that the shape is of; text without its quotes */
  start: number;
  end: number;
}

/** A text as gaps with runs of text around them. */
export interface Cuts {
  runs: string[];
  gaps: Gap[];
}

const QUOTE = 34;
const COMMA = 44;
const ZERO = 48;
const NINE = 57;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN = 123;
const CLOSE = 125;
const SPACE = 32;
const TILDE = 126;

/** Cuts a text by a table. @returns `undefined` for text that is not canonical JSON */
export function cutText(text: string, table: Table): Cuts | undefined {
  const cuts: Cuts = { runs: [], gaps: [] };
  let from = 0;
  const add = (use: Gap["use"], name: string, start: number, end: number) => {
    cuts.runs.push(text.slice(from, start));
    cuts.gaps.push({ use, name, start, end });
    from = end;
  };
  const cutValue = (start: number, use: Use | Table, name: string): number => {
    if (typeof use === "object" && text.charCodeAt(start) === OPEN) return cutObject(start, use);
    const end = passValue(text, start);
    if (use === "skip") add(use, name, start, end);
    else if (use === "text" && passCopied(text, start + 1) === end - 1) add(use, name, start + 1, end - 1);
    else if (use === "number" && passNumber(text, start) === end) add(use, name, start, end);
    return end;
  };
  const cutObject = (start: number, { keys, rest }: Table): number => {
    let at = start + 1;
    if (text.charCodeAt(at) === CLOSE) return at + 1;
    for (;;) {
      const end = passString(text, at);
      if (end < 0 || text.charCodeAt(end) !== COLON) return -1;
      const name = text.slice(at + 1, end - 1);
      // Ours have none, and it hides a key from the tables.
      if (name.includes("\\")) return -1;
      at = cutValue(end + 1, keys.get(name) ?? rest, name);
      const unit = text.charCodeAt(at);
      if (at < 0 || unit !== CLOSE && unit !== COMMA) return -1;
      at++;
      if (unit === CLOSE) return at;
    }
  };
  if (cutValue(0, table, "") !== text.length) return undefined;
  cuts.runs.push(text.slice(from));
  return cuts;
}

/** Places of a text's copied values, start and end by turns; used again for each text. */
export type Places = number[];

/**
 * Compares a text with a shape, from a place on.
 *
 * @param places gets the places of the copied values
 * @returns the end; -1 for text of another shape
 */
export function matchShape(text: string, start: number, { runs, gaps }: Cuts, places: Places): number {
  let at = start;
  for (let gap = 0; gap < gaps.length; gap++) {
    const run = runs[gap];
    // Five times as fast as startsWith.
    if (text.slice(at, at + run.length) !== run) return -1;
    at += run.length;
    const { use } = gaps[gap];
    const end = use === "skip"
      ? passValue(text, at)
      : use === "text"
      ? passCopied(text, at)
      : passNumber(text, at);
    if (end < 0) return -1;
    if (use !== "skip") places.push(at, end);
    at = end;
  }
  const last = runs[gaps.length];
  return text.slice(at, at + last.length) === last ? at + last.length : -1;
}

/**
 * End of plain text within quotes: characters that JSON and ASCII have as they are; -1 for any other, and
 * for long text.
 */
function passCopied(text: string, start: number): number {
  const most = start + COPY_MAX;
  for (let at = start; at <= most; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at;
    if (unit === BACKSLASH || unit > TILDE || !(unit >= SPACE)) return -1;
  }
  return -1;
}

/** End of a positive whole number; -1 for any other value. */
function passNumber(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at++;
  const next = text.charCodeAt(at);
  const isWhole = next === COMMA || next === CLOSE || next === CLOSE_LIST;
  return at > start && at - start <= DIGITS_MAX && text.charCodeAt(start) !== ZERO && isWhole ? at : -1;
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= NINE;
}

/** End of a value; -1 for text that is not JSON. */
function passValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start;;) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = passString(text, at);
      if (at < 0) return -1;
    } else if (unit === OPEN || unit === OPEN_LIST) {
      depth++;
      at++;
      continue;
    } else if (unit === CLOSE || unit === CLOSE_LIST) {
      // The end of the object around it, after a number or a word.
      if (depth === 0) return at > start ? at : -1;
      depth--;
      at++;
    } else if (unit === COMMA && depth === 0) return at > start ? at : -1;
    else if (unit >= SPACE) {
      at++;
      continue;
    } else return -1;
    if (depth === 0) return at;
  }
}

/** End of a string, after its quote; -1 for text that is not JSON. */
function passString(text: string, start: number): number {
  if (text.charCodeAt(start) !== QUOTE) return -1;
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let before = at - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    // An even number of backslashes escapes no quote.
    if ((at - before) % 2 === 1) return at + 1;
  }
  return -1;
}
