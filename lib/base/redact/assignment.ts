/** Values assigned to names of secrets: `token=…`, `"password": "…"`, `--api-key …`, headers. */
import { isUuid, looksRandom } from "./entropy.ts";
import { FOREIGN_LETTER, FOREIGN_NAMES, isPassword, type Strength, strengthOf } from "./name.ts";
import { REDACTED, type Span } from "./span.ts";

/** A quote, including its escapes in JSON and in URLs. */
const QUOTE = "(?:\\\\{0,4}[\"'`]|&quot;|%22)";
/** Name, up to 60 characters of one line. */
const NAME = "[\\w.$-](?:[\\w.\\[\\] \\t$-]{0,60}[\\w.\\]-])?";
const SEPARATOR = "(?::{1,3}=|=>|\\?=|\\|\\||[=:>,]|%3[DdAa])";
/** Place of a value: behind a name and a separator, on the same line. */
const ASSIGNED = new RegExp(
  `(?<![\\w.$-])(${NAME})${QUOTE}?[ \\t]{0,3}(${SEPARATOR})([ \\t=]{0,5})(${QUOTE}?)`,
  "g",
);
/** Place of a value behind such a name in another language. */
const FOREIGN = new RegExp(
  `(?:${FOREIGN_NAMES})${QUOTE}?[ \\t]{0,3}(?:=>|[=:\uff1a\uff1d\u306f\u662f\u4e3a\u70ba])[ \\t]{0,5}(${QUOTE}?)(?=[^\\s])`,
  "gi",
);
/** Place of a value behind an option of a command line. */
const OPTION = /(?<![\w-])(--?[A-Za-z][\w-]{1,40})([ \t]{1,3}|=)(["']?)/g;
/** `user:password` behind an option of curl. */
const USER_OPTION =
  /(?<![\w-])(?:-u|-U|--user|--proxy-user)[ \t=]{0,3}(?:"[^"\n]{3,300}"|'[^'\n]{3,300}'|[^\s"':]{1,200}:[^\s]{1,200})/g;
/** Fields of HTTP messages whose whole value is a secret. */
const HEADER =
  /(?<![\w-])(?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}(?:key|token|auth|secret)|(?:api-?)?(?:key|token))(?:\\{0,4}["'])?[ \t]{0,3}:[ \t]{0,5}(?![ \t])/gi;
/** Schemes of credentials; the rest of a text may hold one anywhere. */
const SCHEME = /(?<![\w-])(?:bearer|basic|token|negotiate|digest)[ \t]{1,4}(?=[\w+/=.~-]{6})/gi;
/** An attribute that names another: `<add key="Password" value="…"/>`. */
const ATTRIBUTE = /key=["']([\w.-]{1,60})["']\s{1,8}value=["']/g;
/** Header of a section in TOML and INI, and its values. */
const SECTION = /(?<=^|\n)[ \t]{0,8}\[{1,2}([^\]\n]{1,200})\]{1,2}[ \t]{0,8}(?=\r?\n)/g;
const SECTION_VALUE =
  /(?<=\n[ \t]{0,8}[\w."-]{1,80}[ \t]{0,8}=[ \t]{0,8}["']{0,3})[^\s"'[\]{}][^\n"']{0,8191}/g;
/** A Kubernetes secret, and base64 among its data. */
const MANIFEST = /\bkind:[ \t]{0,4}["']?Secret\b/i;
const DATUM =
  /(?<=\n[ \t]{1,16}[\w.-]{1,80}:[ \t]{0,4}(?:[|>][+-]?\s{1,20})?["']?)[A-Za-z0-9+/]{10,8192}={0,3}/g;
/** Longest value, in characters. */
const VALUE_MAX = 8192;

/** Values that are no secrets: placeholders, literals, and this redaction's own marks. */
const NO_SECRET = /^(?:true|false|null|none|undefined|nil|yes|no|on|off|\*+|x+|<[^>]*>|\$\{?\w+\}?|\[.*)$/i;
/** `7.50.1`, `2026-11-24T…` and the like. */
const VERSION_OR_TIME = /^v?\d{1,6}(?:[.:-]\d{1,6}){1,6}(?:[-+.TZ]\S{0,30})?$/;
/** Path of a file. Base64 may begin with a slash too. */
const PATH = /^(?:~|\.{1,2})?\/[\w.~@[\]-]+(?:\/|$)|^[a-z]{2,10}:\/\//;
const BLAKE3_REF = /^blake3:[0-9a-f]{64}$/;

/** Placeholders, literals, variables, and this redaction's own marks. */
export function isPlaceholder(value: string): boolean {
  return NO_SECRET.test(value);
}

/**
 * Values of names that hold secret words or the name of a service, and of headers and schemes of credentials.
 */
export function findAssigned(text: string): Span[] {
  return [
    ...findNamed(text),
    ...findForeign(text),
    ...findOptions(text),
    ...findHeaders(text),
    ...findSchemes(text),
    ...findInDocuments(text),
  ];
}

function findNamed(text: string): Span[] {
  const spans: Span[] = [];
  for (const { index, 0: whole, 1: name, 2: separator, 3: space, 4: quote } of text.matchAll(ASSIGNED)) {
    const strength = index < endOfLast(spans) ? undefined : strengthOf(name);
    if (strength === undefined) continue;
    const start = index + whole.length;
    const isPass = isPassword(name);
    const end = endOf(text, start, quote, isPass && separator === ":" && space !== "");
    const value = text.slice(start, end);
    const isExact = /^(?:[:?]*=|=>|:|%3)/.test(separator) && (strength === "strong" || isPass);
    if (!isSecret(value, isExact ? "strong" : "weak")) continue;
    // Sessions of sbx have UUIDs; sessions of web sites are cookies.
    if (isUuid(value) && /session$/i.test(name)) continue;
    // A word of a sentence: `bad token: run sbx stop`.
    const isProse = isExact && !isPass && quote === "" && /^[A-Za-z]{1,14}$/.test(value) &&
      /^ [A-Za-z(]/.test(text.slice(end, end + 2));
    if (!isProse) spans.push({ start, end });
  }
  return spans;
}

/** Values of names that are not of ASCII. */
function findForeign(text: string): Span[] {
  if (!FOREIGN_LETTER.test(text)) return [];
  return Array.from(text.matchAll(FOREIGN)).flatMap(({ index, 0: whole, 1: quote }) => {
    const start = index + whole.length;
    const end = endOf(text, start, quote, false);
    return isSecret(text.slice(start, end), "strong") ? [{ start, end }] : [];
  });
}

function findOptions(text: string): Span[] {
  const spans: Span[] = [];
  for (const { index, 0: whole, 1: name, 3: quote } of text.matchAll(OPTION)) {
    if (index < endOfLast(spans) || strengthOf(name) !== "strong") continue;
    const start = index + whole.length;
    const end = endOf(text, start, quote, false);
    const value = text.slice(start, end);
    if (isSecret(value, "strong") && !value.startsWith("-")) spans.push({ start, end });
  }
  for (const { index, 0: whole } of text.matchAll(USER_OPTION)) {
    if (!whole.includes(":")) continue;
    const option = /^-+[a-zA-Z-]+/.exec(whole)![0];
    const end = index + whole.length;
    spans.push({ start: index + (option.startsWith("--") ? option.length : 2), end, mark: ` ${REDACTED}` });
  }
  return spans;
}

/** Values of XML attributes, and the data of Kubernetes secrets. */
function findInDocuments(text: string): Span[] {
  const attributes = Array.from(text.matchAll(ATTRIBUTE)).flatMap(({ index, 0: { length }, 1: name }) => {
    const start = index + length;
    return strengthOf(name) === "strong" ? [{ start, end: endOf(text, start, '"', false) }] : [];
  });
  const found = [...attributes, ...findInSections(text)];
  if (!MANIFEST.test(text)) return found;
  return [
    ...found,
    ...Array.from(
      text.matchAll(DATUM),
      ({ index, 0: { length } }) => ({ start: index, end: index + length }),
    ),
  ];
}

/** Values in sections with names of secrets: `[settings."ai.api_key"]` and `value = "…"` below it. */
function findInSections(text: string): Span[] {
  if (!text.includes("[")) return [];
  const headers = Array.from(text.matchAll(SECTION));
  return headers.flatMap(({ index, 0: { length }, 1: name }, at) => {
    const strength = strengthOf(name);
    if (strength === undefined) return [];
    const begin = index + length;
    const body = text.slice(begin, headers[at + 1]?.index ?? text.length);
    return Array.from(body.matchAll(SECTION_VALUE)).flatMap(({ index: start, 0: value }) =>
      isSecret(value.trimEnd(), strength) ? [{ start: begin + start, end: begin + start + value.length }] : []
    );
  });
}

function findHeaders(text: string): Span[] {
  const spans: Span[] = [];
  for (const { index, 0: whole } of text.matchAll(HEADER)) {
    if (index < endOfLast(spans)) continue;
    const begin = index + whole.length;
    const quote = /^\\{0,4}["']/.exec(text.slice(begin, begin + 6))?.[0] ?? "";
    const start = begin + quote.length;
    const end = endOf(text, start, quote, true);
    const value = text.slice(start, end);
    const isLoose = /^(?:api-?)?(?:key|token)/i.test(whole);
    if (isSecret(value, isLoose ? "weak" : "strong")) spans.push({ start, end });
  }
  return spans;
}

function findSchemes(text: string): Span[] {
  const spans: Span[] = [];
  for (const { index, 0: whole } of text.matchAll(SCHEME)) {
    const start = index + whole.length;
    const value = /^[\w+/=.~:-]{6,8192}/.exec(text.slice(start, start + VALUE_MAX))?.[0] ?? "";
    const isWord = !/^bearer/i.test(whole) && /^[A-Za-z]+[.:]?$/.test(value);
    if (!isWord && isSecret(value, "strong")) spans.push({ start, end: start + value.length });
  }
  return spans;
}

/** End of a value: its quote, the end of its line, or the end of its word. */
function endOf(text: string, start: number, quote: string, isLine: boolean): number {
  const piece = text.slice(start, start + VALUE_MAX);
  const stop = quote !== ""
    ? piece.search(new RegExp(`${RegExp.escape(quote)}|[\\r\\n]`))
    : isLine
    ? piece.search(/[\r\n"'`]|\\n|\\"/)
    : piece.search(/[\s"'`&;<>,)}\]]|\\[nr"]|$/);
  return start + (stop < 0 ? piece.length : stop);
}

function isSecret(value: string, strength: Strength): boolean {
  if (value === "" || isPlaceholder(value) || BLAKE3_REF.test(value)) return false;
  if (PATH.test(value) && !looksRandom(value)) return false;
  if (strength === "strong") return true;
  return value.length >= 8 && /^[\w.=+/~:%@|!$^-]+$/.test(value) && !VERSION_OR_TIME.test(value) &&
    /\d/.test(value) && (/[A-Za-z]/.test(value) || value.length >= 14);
}

function endOfLast(spans: readonly Span[]): number {
  return spans.at(-1)?.end ?? 0;
}
