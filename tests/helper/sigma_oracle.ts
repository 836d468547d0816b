/**
 * An interpreter of Sigma rules, slow and obvious, written from the Sigma specification 2.1: rules as plain
 * data, log records as plain data. It shares nothing with the compiler.
 */

/** A log record by Sigma's field names; a field that is not there is undefined. */
export type LogRecord = Record<string, unknown>;

type Detection = Record<string, unknown>;

/** Verdict of a rule's detection. @param all every text of the record's event, for keywords */
export function verdict(detection: Detection, record: LogRecord, all: string[]): boolean {
  const conditions = [detection.condition].flat() as string[];
  const names = Object.keys(detection).filter((name) => name !== "condition");
  return conditions.some((text) => {
    const words = text.replaceAll("(", " ( ").replaceAll(")", " ) ").split(" ").filter((word) => word !== "");
    return evaluate(words, names, (name) => selected(detection[name], record, all));
  });
}

/** Least binding first: or, and, not, x of, brackets. */
function evaluate(words: string[], names: string[], holds: (name: string) => boolean): boolean {
  const split = (operator: string) => {
    let depth = 0;
    for (let at = words.length - 1; at >= 0; at--) {
      if (words[at] === ")") depth++;
      if (words[at] === "(") depth--;
      if (depth === 0 && words[at] === operator) return [words.slice(0, at), words.slice(at + 1)];
    }
  };
  for (const operator of ["or", "and"]) {
    const parts = split(operator);
    if (!parts) continue;
    const [left, right] = parts.map((part) => evaluate(part, names, holds));
    return operator === "or" ? left || right : left && right;
  }
  if (words[0] === "not") return !evaluate(words.slice(1), names, holds);
  if (words[0] === "(") return evaluate(words.slice(1, -1), names, holds);
  if (words[1] === "of") {
    const pattern = words[2];
    const meant = names.filter((name) =>
      pattern === "them" ? !name.startsWith("_") : wildcard(pattern.split(""), name.split(""), true)
    );
    return words[0] === "all" ? meant.every(holds) : meant.some(holds);
  }
  return holds(words[0]);
}

function selected(selection: unknown, record: LogRecord, all: string[]): boolean {
  if (Array.isArray(selection)) return selection.some((part) => selected(part, record, all));
  if (selection === null || typeof selection !== "object") return keyword(selection, "", all);
  return Object.entries(selection).every(([key, value]) => item(key, [value].flat(), record, all));
}

function item(key: string, values: unknown[], record: LogRecord, all: string[]): boolean {
  const [field, ...modifiers] = key.split("|");
  const has = (modifier: string) => modifiers.includes(modifier);
  const one = (value: unknown) =>
    field === "" ? keyword(value, modifiers.join("|"), all) : fieldHolds(field, modifiers, value, record);
  const holds = has("all") ? values.every(one) : values.some(one);
  return has("neq") ? !holds : holds;
}

function keyword(value: unknown, modifiers: string, all: string[]): boolean {
  const list = modifiers.split("|");
  if (list.includes("re")) return all.some((text) => regex(String(value), list).test(text));
  const tokens = ["*", ...tokensOf(String(value)), "*"];
  return all.some((text) => wildcard(tokens, text.split(""), list.includes("cased")));
}

function fieldHolds(field: string, modifiers: string[], value: unknown, record: LogRecord): boolean {
  const has = (modifier: string) => modifiers.includes(modifier);
  const there = record[field];
  if (has("exists")) return (there !== undefined) === value;
  if (value === null) return there === undefined || there === null;
  const texts = [there].flat().filter((each) => each !== undefined && each !== null).map(String);
  if (has("fieldref")) {
    const others = [record[String(value)]].flat().filter((each) => each !== undefined && each !== null).map(
      String,
    );
    const fold = (text: string) => has("cased") ? text : text.toLowerCase();
    return texts.some((text) =>
      others.some((other) => {
        const [a, b] = [fold(text), fold(other)];
        if (has("contains")) return a.includes(b);
        if (has("startswith")) return a.startsWith(b);
        return has("endswith") ? a.endsWith(b) : a === b;
      })
    );
  }
  if (has("re")) return texts.some((text) => regex(String(value), modifiers).test(text));
  if (has("cidr")) return texts.some((text) => inNetwork(text, String(value)));
  const number = Number(value);
  if (has("lt")) return texts.some((text) => isNumber(text) && Number(text) < number);
  if (has("lte")) return texts.some((text) => isNumber(text) && Number(text) <= number);
  if (has("gt")) return texts.some((text) => isNumber(text) && Number(text) > number);
  if (has("gte")) return texts.some((text) => isNumber(text) && Number(text) >= number);
  return patternsOf(String(value), modifiers).some((tokens) =>
    texts.some((text) => wildcard(tokens, text.split(""), has("cased")))
  );
}

function isNumber(text: string): boolean {
  return /^[-+]?\d+(\.\d+)?$/.test(text);
}

function regex(pattern: string, modifiers: string[]): RegExp {
  return new RegExp(pattern, ["i", "m", "s"].filter((flag) => modifiers.includes(flag)).join(""));
}

/** Tokens of a value: `*`, `?`, and escaped or plain characters as `\c`. */
function tokensOf(value: string): string[] {
  const tokens: string[] = [];
  for (let at = 0; at < value.length; at++) {
    if (value[at] === "\\" && at + 1 < value.length && "*?\\".includes(value[at + 1])) {
      tokens.push("\\" + value[++at]);
    } else tokens.push(value[at] === "*" || value[at] === "?" ? value[at] : "\\" + value[at]);
  }
  return tokens;
}

/** Applies the modifiers that change a value, in their order. */
function patternsOf(value: string, modifiers: string[]): string[][] {
  let patterns = [tokensOf(value)];
  let bytes: number[] | undefined;
  const literal = (tokens: string[]) => tokens.map((token) => token.slice(1)).join("");
  const plain = (text: string) => text.split("").map((char) => "\\" + char);
  for (const modifier of modifiers) {
    if (modifier === "contains") patterns = patterns.map((tokens) => ["*", ...tokens, "*"]);
    if (modifier === "startswith") patterns = patterns.map((tokens) => [...tokens, "*"]);
    if (modifier === "endswith") patterns = patterns.map((tokens) => ["*", ...tokens]);
    if (modifier === "windash") patterns = patterns.flatMap(dashes);
    if (["wide", "utf16le", "utf16be", "utf16"].includes(modifier)) {
      bytes = literal(patterns[0]).split("").flatMap((char) => {
        const [low, high] = [char.charCodeAt(0) % 256, Math.floor(char.charCodeAt(0) / 256)];
        return modifier === "utf16be" ? [high, low] : [low, high];
      });
      if (modifier === "utf16") bytes.unshift(0xff, 0xfe);
      patterns = [plain(String.fromCharCode(...bytes))];
    }
    if (modifier === "base64") {
      bytes ??= [...new TextEncoder().encode(literal(patterns[0]))];
      patterns = [plain(btoa(String.fromCharCode(...bytes)))];
    }
    if (modifier === "base64offset") {
      bytes ??= [...new TextEncoder().encode(literal(patterns[0]))];
      patterns = [0, 1, 2].map((offset) => plain(constantPart(bytes!, offset)));
    }
  }
  return patterns;
}

/** Every dash before a word and behind none may be any of the dashes. */
function dashes(tokens: string[]): string[][] {
  const isWord = (token: string | undefined) => token !== undefined && /^\\[A-Za-z0-9_]$/.test(token);
  const at = tokens.findIndex((token, index) =>
    ["\\-", "\\/", "\\–", "\\—", "\\―"].includes(token) && !isWord(tokens[index - 1]) &&
    isWord(tokens[index + 1])
  );
  if (at < 0) return [tokens];
  return dashes(tokens.slice(at + 1)).flatMap((rest) =>
    ["-", "/", "–", "—", "―"].map((dash) => [...tokens.slice(0, at), "\\" + dash, ...rest])
  );
}

/** The characters of an encoding that no byte before or behind the value changes. */
function constantPart(bytes: number[], offset: number): string {
  const encodings = [0, 255].flatMap((before) =>
    [[], [0], [255], [0, 0], [255, 255], [0, 0, 0], [255, 255, 255]].map((after) =>
      btoa(String.fromCharCode(...Array(offset).fill(before), ...bytes, ...after))
    )
  );
  let constant = "";
  for (let at = 0; at < Math.min(...encodings.map(({ length }) => length)); at++) {
    if (encodings.every((encoding) => encoding[at] === encodings[0][at])) constant += encodings[0][at];
  }
  return constant;
}

/** Compares token by token, with every length that a `*` may have. */
function wildcard(tokens: string[], text: string[], isCased: boolean): boolean {
  let starts = new Set([0]);
  for (const token of tokens) {
    const next = new Set<number>();
    for (const at of starts) {
      if (token === "*") { for (let to = at; to <= text.length; to++) next.add(to); }
      else if (
        at < text.length && (token === "?" || sameChar(token.replace(/^\\(?=.)/su, ""), text[at], isCased))
      ) {
        next.add(at + 1);
      }
    }
    starts = next;
  }
  return starts.has(text.length);
}

function sameChar(a: string, b: string, isCased: boolean): boolean {
  return a === b || !isCased && a.toLowerCase() === b.toLowerCase();
}

function inNetwork(text: string, network: string): boolean {
  const [base, length] = network.split("/");
  const [a, b] = [text, base].map(bits);
  return a !== undefined && b !== undefined && a.length === b.length &&
    a.slice(0, Number(length)) === b.slice(0, Number(length));
}

/** Bits of an IPv4 address, as text. */
function bits(address: string): string | undefined {
  if (!/^\d+\.\d+\.\d+\.\d+$/.test(address)) return undefined;
  return address.split(".").map((part) => Number(part).toString(2).padStart(8, "0")).join("");
}
