/** Heads of HTTP/1.1 messages, read strictly: whatever two programs could read in two ways is refused (RFC 9112). */
import { MessageFault } from "../fault.ts";
import type { Header } from "./header.ts";
import { flat, latin1 } from "./latin1.ts";
import { HEADERS_MAX, METHOD_MAX } from "../limit.ts";

export interface RequestHead {
  method: string;
  /** as it was sent; bytes above 0x7e are percent-encoded */
  target: string;
  /** HTTP/1.0: no chunks, and a connection closes unless it says otherwise */
  old: boolean;
  headers: Header[];
}

export interface AnswerHead {
  status: number;
  reason: string;
  old: boolean;
  headers: Header[];
}

const LF = 10;
const CR = 13;

/**
 * Where the head ends that `bytes` begins with: just behind its empty line, −1 when that has not come yet.
 *
 * @throws {MessageFault} for a line that ends without CR
 */
export function headEnd(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) throw new MessageFault("a line of the head ends without a carriage return");
    if (at >= 3 && bytes[at - 2] === LF) return at + 1;
  }
  return -1;
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
    throw new MessageFault("its first line has not three parts");
  }
  if (method.length > METHOD_MAX || !TOKEN.test(method)) throw new MessageFault("its method is no token");
  if (target === "" || TARGET_BAD.test(target)) throw new MessageFault("its target has control characters");
  if (target.includes("#")) throw new MessageFault("its target has a fragment");
  if (version !== "HTTP/1.1" && version !== "HTTP/1.0") {
    throw new MessageFault("its version is neither HTTP/1.1 nor HTTP/1.0");
  }
  const headers = fieldsOf(lines);
  return { method, target: target.replace(/[\x80-\xff]/g, percent), old: version === "HTTP/1.0", headers };
}

/** @param bytes one head with its empty line @throws {MessageFault} */
export function parseAnswerHead(bytes: Uint8Array): AnswerHead {
  const lines = linesOf(bytes);
  const [, minor, status, reason = ""] = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: (.*))?$/.exec(lines[0]) ?? [];
  if (status === undefined || VALUE_BAD.test(reason)) {
    throw new MessageFault("its first line is no status line");
  }
  return { status: Number(status), reason, old: minor === "0", headers: fieldsOf(unfolded(lines)) };
}

/** Fields of trailers, with their empty line. @throws {MessageFault} */
export function parseTrailers(bytes: Uint8Array): Header[] {
  return fieldsOf(["", ...linesOf(bytes)]);
}

function linesOf(bytes: Uint8Array): string[] {
  const lines = latin1(bytes).split("\r\n");
  // The empty line, and what the last line break leaves.
  lines.length -= 2;
  return lines;
}

/** Upstreams may still fold lines, which says nothing but a space (RFC 9112 §5.2); a guest's request may not. */
function unfolded(lines: string[]): string[] {
  const whole: string[] = [];
  for (const line of lines) {
    if (/^[ \t]/.test(line) && whole.length > 1) whole.push(`${whole.pop()} ${line.trim()}`);
    else whole.push(line);
  }
  return whole;
}

function fieldsOf(lines: string[]): Header[] {
  if (lines.length - 1 > HEADERS_MAX) throw new MessageFault(`it has more than ${HEADERS_MAX} header fields`);
  const headers: Header[] = [];
  for (let at = 1; at < lines.length; at++) {
    const line = lines[at];
    headers.push(line.length > SEEN_CHARS ? fieldOf(line) : seen.get(line) ?? noted(line, fieldOf(line)));
  }
  return headers;
}

/** @throws {MessageFault} */
function fieldOf(line: string): Header {
  const colon = line.indexOf(":");
  const name = line.slice(0, Math.max(colon, 0));
  if (!TOKEN.test(name)) throw new MessageFault(complaint(line));
  const value = trimmed(line, colon + 1);
  if (VALUE_BAD.test(value)) throw new MessageFault("a header field has control characters");
  return [name.toLowerCase(), value];
}

/** Lines that were read before: most of a head is what the head before it said. Those of fields that may hold secrets are not kept. */
const seen = new Map<string, Header>();
const SEEN_CHARS = 200;
const SEEN_MAX = 512;
const PLAIN_FIELDS = new Set([
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

function noted(line: string, field: Header): Header {
  if (!PLAIN_FIELDS.has(field[0])) return field;
  if (seen.size >= SEEN_MAX) seen.clear();
  const own: Header = [field[0], flat(field[1])];
  seen.set(flat(line), own);
  return own;
}

/** Checks fields that came as pairs (HTTP/2), so that none of them can become two. @throws {MessageFault} */
export function checkFields(headers: readonly Header[]): void {
  if (headers.length > HEADERS_MAX) throw new MessageFault(`it has more than ${HEADERS_MAX} header fields`);
  for (const [name, value] of headers) {
    if (!/^:?[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) {
      throw new MessageFault("a header field has no proper name");
    }
    if (VALUE_BAD.test(value)) throw new MessageFault("a header field has control characters");
  }
}

function complaint(line: string): string {
  if (/^[ \t]/.test(line)) return "a header field is folded over two lines";
  if (/^[^:]*[ \t]+:/.test(line)) return "a header field has white space before its colon";
  return "a header field has no proper name";
}

/** Spaces and tabs around a value are no part of it; `trim` would take more than those. */
function trimmed(line: string, from: number): string {
  let to = line.length;
  while (from < to && isBlank(line.charCodeAt(from))) from++;
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--;
  return line.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}

function percent(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
}
