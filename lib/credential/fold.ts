/**
 * Normal form of text in which secrets are searched (docs/design/contracts/09-credentials.md §9): lower case,
 * escapes undone, white space and separators dropped. UTF-16, wrapped base64 and escapes of escapes become
 * the same text as a plain secret.
 */

/** White space and NUL. */
const SPACE = 0;
/** Separators: `.` of host names, `:` of hex pairs, `=` of soft line breaks. */
const SEPARATOR = 1;
/** Any character that is in no secret. */
const OTHER = 2;

const PERCENT = 37;
const AMPERSAND = 38;
const SEMICOLON = 59;
const BACKSLASH = 92;
/** Escapes that may contain each other; more are not undone. */
const NESTED_MAX = 4;
/** Most digits of a numeric character reference. */
const DIGITS_MAX = 7;

/** Lower case without separators; base64url as base64. */
const FOLDED = new Uint8Array(256).map((_, code) => {
  const char = String.fromCharCode(code);
  if (/[\0\s]/.test(char) && code < 128) return SPACE;
  if (/[.:=]/.test(char)) return SEPARATOR;
  if (!/[!-~]/.test(char)) return OTHER;
  return { "-": "+", _: "/" }[char]?.charCodeAt(0) ?? char.toLowerCase().charCodeAt(0);
});
/** Lower case only. */
const LOWER = new Uint8Array(256).map((_, code) =>
  code > 127 ? OTHER : String.fromCharCode(code).toLowerCase().charCodeAt(0)
);

/** Characters of HTML's named references, as folded. */
const ENTITIES: Record<string, string> = {
  "excl": "!",
  "quot": '"',
  "num": "#",
  "dollar": "$",
  "percnt": "%",
  "amp": "&",
  "apos": "'",
  "lpar": "(",
  "rpar": ")",
  "ast": "*",
  "midast": "*",
  "plus": "+",
  "comma": ",",
  "hyphen": "-",
  "dash": "-",
  "period": ".",
  "sol": "/",
  "colon": ":",
  "semi": ";",
  "lt": "<",
  "equals": "=",
  "gt": ">",
  "quest": "?",
  "commat": "@",
  "lsqb": "[",
  "lbrack": "[",
  "bsol": "\\",
  "rsqb": "]",
  "rbrack": "]",
  "hat": "^",
  "lowbar": "_",
  "grave": "`",
  "lcub": "{",
  "lbrace": "{",
  "verbar": "|",
  "vert": "|",
  "rcub": "}",
  "rbrace": "}",
  "newline": "\n",
  "tab": "\t",
};
const ENTITY_PARTS = new Set(
  Object.keys(ENTITIES).flatMap((name) => Array.from(name, (_, at) => name.slice(0, at + 1))),
);

/** Text in its normal form. The arrays are overwritten by the next call. */
export interface Folded {
  codes: Uint8Array;
  length: number;
  /** codes before this one do not depend on text that follows */
  stable: number;
  /** offset in the text where each code begins, and behind its end */
  starts: Int32Array;
  ends: Int32Array;
}

const folded: Folded = {
  codes: new Uint8Array(0),
  length: 0,
  stable: 0,
  starts: new Int32Array(0),
  ends: new Int32Array(0),
};
let lowered = new Uint8Array(0);

/** Folds a text from an offset on. */
export function fold(text: string, from = 0): Folded {
  if (folded.codes.length < text.length - from) {
    const size = (text.length - from) * 2;
    folded.codes = new Uint8Array(size);
    folded.starts = new Int32Array(size);
    folded.ends = new Int32Array(size);
  }
  const { codes, starts, ends } = folded;
  /** beginnings of escapes that are not complete, the innermost last */
  const open: number[] = [];
  let length = 0;
  for (let at = from; at < text.length; at++) {
    const char = text.charCodeAt(at);
    let code: number = char < 256 ? FOLDED[char] : OTHER;
    if (code < OTHER) {
      // A backslash before a line break or separator only escapes it; NUL stands between bytes of UTF-16.
      if (char !== 0 && open.length > 0 && open.at(-1) === length - 1 && codes[length - 1] === BACKSLASH) {
        open.pop();
        length--;
      }
      continue;
    }
    starts[length] = at;
    ends[length] = at + 1;
    codes[length++] = code;
    if (open.length === 0) {
      if (isEscape(code)) open.push(length - 1);
      continue;
    }
    while (open.length > 0) {
      const begin = open.at(-1)!;
      const value = decode(codes, begin, length);
      if (value === INCOMPLETE) break;
      if (value === INVALID) {
        if (isEscape(code)) {
          open.push(length - 1);
          if (open.length > NESTED_MAX) open.shift();
        } else open.length = 0;
        break;
      }
      open.pop();
      code = value < 256 ? FOLDED[value] : OTHER;
      length = begin;
      if (code < OTHER) break;
      ends[length] = at + 1;
      codes[length++] = code;
      if (open.length === 0 && isEscape(code)) {
        open.push(begin);
        break;
      }
    }
  }
  folded.length = length;
  folded.stable = open.length > 0 ? open[0] : length;
  return folded;
}

/** Lower case of a text from an offset on, one code per char. The array is overwritten by the next call. */
export function lower(text: string, from = 0): Uint8Array {
  const length = text.length - from;
  if (lowered.length < length) lowered = new Uint8Array(length * 2);
  for (let at = 0; at < length; at++) {
    const char = text.charCodeAt(from + at);
    lowered[at] = char < 256 ? LOWER[char] : OTHER;
  }
  return lowered;
}

function isEscape(code: number): boolean {
  return code === BACKSLASH || code === PERCENT || code === AMPERSAND;
}

const INCOMPLETE = -1;
const INVALID = -2;

/** Character of an escape: `%2d`, `\u002d`, `\x2d`, `\-`, `&#45;`, `&#x2d;` or a named reference. */
function decode(codes: Uint8Array, begin: number, end: number): number {
  const size = end - begin;
  if (size === 1) return INCOMPLETE;
  if (codes[begin] === PERCENT) return hexValue(codes, begin + 1, end, 2);
  const next = codes[begin + 1];
  if (codes[begin] === BACKSLASH) {
    if (next === 117) return hexValue(codes, begin + 2, end, 4);
    if (next === 120) return hexValue(codes, begin + 2, end, 2);
    // \n \r \t \0
    if (next === 110 || next === 114 || next === 116 || next === 48) return 0;
    return isAlphanumeric(next) || next === OTHER ? INVALID : next;
  }
  const last = codes[end - 1];
  if (next === 35) return referenceValue(codes, begin + 2, end);
  const name = String.fromCharCode(...codes.subarray(begin + 1, last === SEMICOLON ? end - 1 : end));
  if (last !== SEMICOLON) return ENTITY_PARTS.has(name) ? INCOMPLETE : INVALID;
  return Object.hasOwn(ENTITIES, name) ? ENTITIES[name].charCodeAt(0) : INVALID;
}

/** Value of exactly `count` hex digits. */
function hexValue(codes: Uint8Array, from: number, end: number, count: number): number {
  let value = 0;
  for (let at = from; at < end; at++) {
    const digit = digitOf(codes[at]);
    if (digit < 0) return INVALID;
    value = value * 16 + digit;
  }
  return end - from < count ? INCOMPLETE : value;
}

/** Value of a numeric character reference behind its `#`. */
function referenceValue(codes: Uint8Array, from: number, end: number): number {
  const isHex = codes[from] === 120;
  const base = isHex ? 16 : 10;
  const first = isHex ? from + 1 : from;
  let value = 0;
  for (let at = first; at < end; at++) {
    if (codes[at] === SEMICOLON) return value;
    const digit = digitOf(codes[at]);
    if (digit < 0 || digit >= base) return INVALID;
    value = value * base + digit;
  }
  return end - first > DIGITS_MAX ? INVALID : INCOMPLETE;
}

function digitOf(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  return code >= 97 && code <= 102 ? code - 87 : -1;
}

function isAlphanumeric(code: number): boolean {
  return code >= 48 && code <= 57 || code >= 97 && code <= 122;
}
