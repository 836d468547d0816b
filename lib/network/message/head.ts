/**
 * Heads of HTTP/1.1 messages (RFC 9112), parsed strictly: bytes that two programs
 * could read differently are refused.
 */
import { MessageFault } from "../fault.ts";
import { HEADERS_MAX, METHOD_MAX } from "../limit.ts";
import type { Header } from "./header.ts";
import { decodeLatin1, flatten } from "./bytes.ts";

export interface RequestHead {
  /** a method of HTTP is in upper case, as servers that ignore case read it */
  method: string;
  /** request target as sent; bytes above 0x7e are percent-encoded */
  target: string;
  /** HTTP/1.0: no chunks, and the connection closes unless a header keeps it alive */
  old: boolean;
  headers: Header[];
}

export interface ResponseHead {
  status: number;
  reason: string;
  old: boolean;
  headers: Header[];
}

const LF = 10;
const CR = 13;

/**
 * Finds the end of the head at the beginning of `bytes`: the offset behind its empty
 * line, −1 while it is incomplete.
 *
 * @throws {MessageFault} for a line that ends without CR
 */
export function headEnd(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) throw new MessageFault("a line of the head ends in a bare LF");
    if (at >= 3 && bytes[at - 2] === LF) return at + 1;
  }
  return -1;
}

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]);
/** True for a method that a request may have; CONNECT is for connections, which are no requests here. */
export function isMethod(text: string): boolean {
  return text.length <= METHOD_MAX && TOKEN.test(text) && text.toUpperCase() !== "CONNECT";
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// deno-lint-ignore no-control-regex
const VALUE_BAD = /[\x00-\x08\x0a-\x1f\x7f]/;
// deno-lint-ignore no-control-regex
const TARGET_BAD = /[\x00-\x20\x7f]/;

/** @param bytes one head with its empty line @throws {MessageFault} */
export function parseRequestHead(bytes: Uint8Array): RequestHead {
  const lines = linesOf(bytes);
  const [method, target, version, more] = lines[0].split(" ");
  if (more !== undefined || version === undefined) {
    throw new MessageFault("the request line does not have three parts");
  }
  const checked = checkRequestLine(method, target);
  if (version !== "HTTP/1.1" && version !== "HTTP/1.0") {
    throw new MessageFault("the version is neither HTTP/1.1 nor HTTP/1.0");
  }
  const headers = parseFields(lines);
  return { ...checked, old: version === "HTTP/1.0", headers };
}

/** Checks a method and a request target, in any HTTP version. @throws {MessageFault} */
export function checkRequestLine(method: string, target: string): Pick<RequestHead, "method" | "target"> {
  if (method.length > METHOD_MAX || !TOKEN.test(method)) throw new MessageFault("invalid method");
  if (target === "" || TARGET_BAD.test(target)) {
    throw new MessageFault("control characters in the request target");
  }
  if (target.includes("#")) throw new MessageFault("a fragment in the request target");
  return {
    method: METHODS.has(method.toUpperCase()) ? method.toUpperCase() : method,
    target: target.replace(/[\x80-\xff]/g, percentEncode),
  };
}

/** @param bytes one head with its empty line @throws {MessageFault} */
export function parseResponseHead(bytes: Uint8Array): ResponseHead {
  const lines = linesOf(bytes);
  const [, minor, status, reason = ""] = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: (.*))?$/.exec(lines[0]) ?? [];
  if (status === undefined || VALUE_BAD.test(reason)) throw new MessageFault("invalid status line");
  return { status: Number(status), reason, old: minor === "0", headers: parseFields(unfold(lines)) };
}

/** @param bytes trailer fields with their empty line @throws {MessageFault} */
export function parseTrailers(bytes: Uint8Array): Header[] {
  return parseFields(["", ...linesOf(bytes)]);
}

function linesOf(bytes: Uint8Array): string[] {
  const lines = decodeLatin1(bytes).split("\r\n");
  // The empty line, and the rest after the last line break.
  lines.length -= 2;
  return lines;
}

/** Joins folded lines with a space (RFC 9112 §5.2): allowed to upstreams, not to guests. */
function unfold(lines: string[]): string[] {
  const joined: string[] = [];
  for (const line of lines) {
    if (/^[ \t]/.test(line) && joined.length > 1) joined.push(`${joined.pop()} ${line.trim()}`);
    else joined.push(line);
  }
  return joined;
}

function parseFields(lines: string[]): Header[] {
  if (lines.length - 1 > HEADERS_MAX) throw new MessageFault(`more than ${HEADERS_MAX} header fields`);
  const headers: Header[] = [];
  for (let at = 1; at < lines.length; at++) {
    const line = lines[at];
    headers.push(
      line.length > CACHED_LINE_MAX
        ? parseField(line)
        : fieldCache.get(line) ?? cacheField(line, parseField(line)),
    );
  }
  return headers;
}

/** @throws {MessageFault} */
function parseField(line: string): Header {
  const colon = line.indexOf(":");
  const name = line.slice(0, Math.max(colon, 0));
  if (!TOKEN.test(name)) throw new MessageFault(describeFault(line));
  const value = trimBlanks(line, colon + 1);
  if (VALUE_BAD.test(value)) throw new MessageFault("control characters in a header field");
  return [name.toLowerCase(), value];
}

/**
 * Parsed lines: a head mostly repeats lines of the head before. Fields that may hold secrets are not cached.
 */
const fieldCache = new Map<string, Header>();
/** Longest cached line, in characters. */
const CACHED_LINE_MAX = 200;
const CACHED_LINES_MAX = 512;
const CACHED_FIELDS = new Set([
  "accept",
  "accept-encoding",
  "accept-language",
  "accept-ranges",
  "anthropic-version",
  "cache-control",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "date",
  "host",
  "server",
  "transfer-encoding",
  "user-agent",
  "vary",
]);

function cacheField(line: string, field: Header): Header {
  if (!CACHED_FIELDS.has(field[0])) return field;
  if (fieldCache.size >= CACHED_LINES_MAX) fieldCache.clear();
  const copy: Header = [field[0], flatten(field[1])];
  fieldCache.set(flatten(line), copy);
  return copy;
}

/**
 * Checks fields received as pairs (HTTP/2), so that no field can become two in HTTP/1.1.
 * @throws {MessageFault}
 */
export function checkFields(headers: readonly Header[]): void {
  if (headers.length > HEADERS_MAX) throw new MessageFault(`more than ${HEADERS_MAX} header fields`);
  for (const [name, value] of headers) {
    if (!/^:?[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) throw new MessageFault("invalid header field name");
    if (VALUE_BAD.test(value)) throw new MessageFault("control characters in a header field");
  }
}

function describeFault(line: string): string {
  if (/^[ \t]/.test(line)) return "a folded header field";
  if (/^[^:]*[ \t]+:/.test(line)) return "white space before the colon of a header field";
  return "invalid header field name";
}

/** Cuts spaces and tabs around a value; `trim` would cut more than those. */
function trimBlanks(line: string, from: number): string {
  let to = line.length;
  while (from < to && isBlank(line.charCodeAt(from))) from++;
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--;
  return line.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}

function percentEncode(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** Path and query of a request target; the query is empty if absent. */
export function splitTarget(target: string): { path: string; query: string } {
  const mark = target.indexOf("?");
  if (mark < 0) return { path: target, query: "" };
  return { path: target.slice(0, mark), query: target.slice(mark + 1) };
}
