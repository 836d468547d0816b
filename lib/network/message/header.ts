import { decodeByteText, flatten } from "./bytes.ts";

/** Header field: name in lower case, value as byte text. Lists keep order and repetition. */
export type Header = [name: string, value: string];

/** Value of the first field with a name. */
export function headerValue(headers: readonly Header[], name: string): string | undefined {
  for (const header of headers) if (header[0] === name) return header[1];
}

/** Drops every field with a name. */
export function dropHeader(headers: readonly Header[], name: string): Header[] {
  return headers.filter((header) => header[0] !== name);
}

/** Asks for a response without content encoding. */
export function acceptIdentity(headers: readonly Header[]): Header[] {
  return [...dropHeader(headers, "accept-encoding"), ["accept-encoding", "identity"]];
}

/**
 * Fields that ask for a part of an answer, or for another form of it: a secret that its host repeats could
 * come in two parts, or in bytes that are not searched.
 */
const PARTIAL = new Set([
  "range",
  "if-range",
  "a-im",
  "accept-charset",
  "available-dictionary",
  "grpc-accept-encoding",
  "connect-accept-encoding",
]);

/** Asks for a whole response without content encoding. */
export function acceptWhole(headers: readonly Header[]): Header[] {
  return acceptIdentity(headers.filter(([name]) => !PARTIAL.has(name)));
}

/** Fields of one connection (RFC 9110 §7.6.1), and fields that frame the message. */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
  "expect",
  "http2-settings",
]);

/** Drops the fields of one connection, including any that `connection` names. */
export function dropHopByHop(headers: readonly Header[]): Header[] {
  const remaining: Header[] = [];
  let named: Set<string> | undefined;
  for (const [name, value] of headers) {
    if (name === "connection") named = (named ?? new Set()).union(connectionOptions(value));
  }
  for (const header of headers) {
    if (!HOP_BY_HOP.has(header[0]) && !named?.has(header[0])) remaining.push(header);
  }
  return remaining;
}

/** Fields that only this proxy writes, and fields that define how a body is read. */
const IMITATED = new Set([...HOP_BY_HOP, "host", "content-encoding", "content-type"]);
const PLAIN_NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;

/**
 * Drops fields whose names some servers take for a field of this connection or of the body
 * (`transfer_encoding`, `content!length`): their values have not been checked.
 *
 * @returns the other fields, and the names that the dropped ones imitate
 */
export function dropImitations(headers: readonly Header[]): { kept: readonly Header[]; imitated: string[] } {
  const imitated = new Set<string>();
  const kept = headers.filter(([name]) => {
    const original = imitatedBy(name);
    if (original !== undefined) imitated.add(original);
    return original === undefined;
  });
  return imitated.size === 0 ? { kept: headers, imitated: [] } : { kept, imitated: [...imitated] };
}

/** Field that a name imitates by other separators. */
function imitatedBy(name: string): string | undefined {
  if (PLAIN_NAME.test(name)) return undefined;
  const original = name.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return IMITATED.has(original) ? original : undefined;
}

/** End-to-end fields that `connection` cannot remove. */
const ALWAYS_KEPT = new Set(["host", "authorization", "cookie", "content-type", "content-encoding"]);

function connectionOptions(value: string): Set<string> {
  const names = value.toLowerCase().split(",").map((name) => name.trim());
  return new Set(names.filter((name) => !ALWAYS_KEPT.has(name)));
}

/** False for fields that frame a message or name its sender: they may not be trailers. */
export function mayTrail([name]: Header): boolean {
  return !HOP_BY_HOP.has(name) && imitatedBy(name) === undefined && !ALWAYS_KEPT.has(name) &&
    !isSensitive(name) && name !== "set-cookie";
}

const SENSITIVE =
  /^(authorization|proxy-authorization|cookie|set-cookie2?|x-goog-api-key|.*[-_](api-?key|token|secret|password)|api-?key)$/;

/** True for names of fields whose values are secrets. */
export function isSensitive(name: string): boolean {
  return SENSITIVE.test(name);
}

/** Placeholder in events for a value that must not be recorded. */
const REDACTED = "[redacted]";

/**
 * Header fields of an event (docs/design/contracts/05-policy.md §5). Values of sensitive fields are redacted,
 * unless the broker put a ref there; the scheme of an authorization stays.
 */
export function eventHeaders(headers: readonly Header[]): Record<string, string[]> {
  const map: Record<string, string[]> = {};
  for (const [name, value] of headers) {
    if (name.charCodeAt(0) === 58) continue;
    const text = flatten(eventValue(name, value));
    if (Object.hasOwn(map, name)) map[name].push(text);
    // An assignment would set the map's prototype.
    else if (name === "__proto__") Object.defineProperty(map, name, { ...PLAIN_PROPERTY, value: [text] });
    else map[name] = [text];
  }
  return map;
}

const PLAIN_PROPERTY = { enumerable: true, configurable: true, writable: true };

/** One header value of an event. */
export function eventValue(name: string, value: string): string {
  if (!isSensitive(name) || value.includes("credential:blake3:")) return decodeByteText(value);
  const [, scheme] = /^(Basic|Bearer|Digest|Negotiate|Token) /i.exec(value) ?? [];
  return scheme ? `${scheme} ${REDACTED}` : REDACTED;
}
