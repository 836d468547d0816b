/** What a request of the aggregator has to fit before it goes out: it runs code that talked to servers we do not know. */
import type { AggregatorDefinition } from "../definition.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { Open } from "./frame.ts";

/** A server that requests may go to. */
export interface Target {
  definition: AggregatorDefinition;
  url: URL;
  origin: string;
  /** headers of every request to it */
  headers: Record<string, string>;
}

/** Headers that the MCP client itself sets; no other crosses, least of all one that carries a credential. */
const ALLOWED_HEADER = /^(accept|content-type|last-event-id|mcp-[a-z0-9-]{1,64})$/;
const METHODS = ["GET", "POST", "DELETE"];

/** The enabled HTTP servers among these definitions. */
export function targetsOf(definitions: AggregatorDefinition[]): Map<string, Target> {
  const targets = new Map<string, Target>();
  for (const definition of definitions) {
    const url = definition.enabled && !definition.unsupported_stdio && URL.parse(definition.url);
    if (!url || targets.has(definition.name)) continue;
    const headers: Record<string, string> = { "user-agent": `sbx/${VERSION}` };
    for (const [name, value] of Object.entries(definition.headers)) headers[name.toLowerCase()] = value;
    targets.set(definition.name, { definition, url, origin: url.origin, headers });
  }
  return targets;
}

/** What a frame asks for, and its body; undefined when it is no request at all. */
export function readOpen(payload: Uint8Array): { open: Open; body: Uint8Array<ArrayBuffer> } | undefined {
  const end = payload.indexOf(10);
  try {
    const open = JSON.parse(new TextDecoder().decode(payload.subarray(0, end)));
    const { server, method, url, headers } = open;
    const isText = [server, method, url].every((text) => typeof text === "string");
    if (end < 0 || !isText || typeof headers !== "object" || headers === null) return undefined;
    return { open, body: payload.slice(end + 1) };
  } catch {
    return undefined;
  }
}

/**
 * Where the request goes; a text says why it may not. Exact scheme, host and port of a definition of that name: no other
 * destination, even on the same host.
 */
export function destinationOf(
  { method, url }: Open,
  ...targets: (Target | undefined)[]
): { to: URL; target: Target } | string {
  const named = targets.filter((target) => target !== undefined);
  if (named.length === 0) return "no enabled server has this name";
  const to = url === named[0].url.href ? named[0].url : URL.parse(url);
  const target = named.find(({ origin }) => origin === to?.origin);
  if (!to || !target || to.username || to.password) {
    return `only ${named[0].origin} may be reached for this server`;
  }
  return METHODS.includes(method) ? { to, target } : `${method} is no method of MCP`;
}

/** Headers of the request; those of the definition go before what the aggregator says. */
export function headersOf({ headers }: Open, target: Target): Record<string, string> {
  const all: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (ALLOWED_HEADER.test(name) && typeof value === "string") all[name] = value;
  }
  return Object.assign(all, target.headers);
}

const REASONS: [RegExp, string][] = [
  [/connection refused/i, "the connection was refused"],
  [/dns error|lookup address|resolve/i, "its host name does not resolve"],
  [/certificate/i, "its TLS certificate is not trusted"],
  [/tls|ssl|handshake|corrupt message/i, "TLS with it failed"],
  [/timed out|timeout/i, "it did not answer in time"],
  [/unreachable/i, "its network is not reachable"],
  [/reset|broken pipe|closed|eof|incomplete|terminated/i, "the connection broke off"],
  [/port \d+ (are|is) blocked/i, "its port is one that fetch refuses"],
];

/** Why a request failed, in words of our own. */
export function failureText(error: unknown): string {
  const text = error instanceof Error ? `${error.message} ${(error.cause as Error)?.message ?? ""}` : "";
  return REASONS.find(([pattern]) => pattern.test(text))?.[1] ?? "the request failed";
}
