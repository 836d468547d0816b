import { flat, readable } from "./latin1.ts";

/** A header field. Its name is lower case; its value has one char a byte. Lists keep order and repetition. */
export type Header = [name: string, value: string];

/** Value of the first field of a name. */
export function headerValue(headers: readonly Header[], name: string): string | undefined {
  for (const header of headers) if (header[0] === name) return header[1];
}

/** Fields that concern one connection only (RFC 9110 §7.6.1), and those that say how long a message is. */
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

/** The fields that go on to the next connection; those that `connection` names are left out too. */
export function endToEnd(headers: readonly Header[]): Header[] {
  const kept: Header[] = [];
  let named: Set<string> | undefined;
  for (const [name, value] of headers) {
    if (name === "connection") named = (named ?? new Set()).union(connectionOptions(value));
  }
  for (const header of headers) {
    if (!HOP_BY_HOP.has(header[0]) && !named?.has(header[0])) kept.push(header);
  }
  return kept;
}

/** What `connection` may not take away from a message: it is no field of one connection. */
const ALWAYS_KEPT = new Set(["host", "authorization", "cookie", "content-type", "content-encoding"]);

function connectionOptions(value: string): Set<string> {
  const names = value.toLowerCase().split(",").map((name) => name.trim());
  return new Set(names.filter((name) => !ALWAYS_KEPT.has(name)));
}

/** Whether a field may stand behind a body: none that says how the message is to be read or who sends it. */
export function mayTrail([name]: Header): boolean {
  return !HOP_BY_HOP.has(name) && !ALWAYS_KEPT.has(name) && !isSensitive(name) && name !== "set-cookie";
}

const SENSITIVE =
  /^(authorization|proxy-authorization|cookie|set-cookie2?|x-goog-api-key|.*[-_](api-?key|token|secret|password)|api-?key)$/;

/** Whether a field's value is a secret by its name. */
export function isSensitive(name: string): boolean {
  return SENSITIVE.test(name);
}

/** What stands in an event for a value that nobody may keep. */
export const REDACTED = "[redacted]";

/**
 * Fields as an event has them (contracts.md §5). Where a value is a secret by its name it is left out, unless the broker
 * put a ref there; the scheme of an authorization stays.
 */
export function eventHeaders(headers: readonly Header[]): Record<string, string[]> {
  const map: Record<string, string[]> = {};
  for (const [name, value] of headers) {
    if (name.charCodeAt(0) === 58) continue;
    const shown = flat(eventValue(name, value));
    if (Object.hasOwn(map, name)) map[name].push(shown);
    // An assignment would change what the map is made of.
    else if (name === "__proto__") Object.defineProperty(map, name, { ...OWN, value: [shown] });
    else map[name] = [shown];
  }
  return map;
}

const OWN = { enumerable: true, configurable: true, writable: true };

/** One value as an event has it. */
export function eventValue(name: string, value: string): string {
  if (!isSensitive(name) || value.includes("credential:blake3:")) return readable(value);
  const [, scheme] = /^(Basic|Bearer|Digest|Negotiate|Token) /i.exec(value) ?? [];
  return scheme ? `${scheme} ${REDACTED}` : REDACTED;
}
