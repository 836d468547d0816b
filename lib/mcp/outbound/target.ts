/** Checks of the aggregator's requests before they are sent: it runs code that talks to untrusted servers. */
import { VERSION } from "../../base/version/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import { isServed } from "../sources.ts";
import type { RequestHead } from "./frame.ts";
import { STDIO_URL } from "./stdio.ts";

/** A server that requests may be sent to. */
export interface AllowedServer {
  definition: AggregatorDefinition;
  url: URL;
  origin: string;
  /** headers added to every request */
  headers: Record<string, string>;
}

/** Headers that the MCP client sets itself; all others are dropped, above all any that carry a credential. */
const ALLOWED_HEADER = /^(accept|content-type|last-event-id|mcp-[a-z0-9-]{1,64})$/;
const METHODS = ["GET", "POST", "DELETE"];
const STDIO_METHODS = ["GET", "POST"];

/** The enabled servers among these definitions. */
export function allowedServers(definitions: AggregatorDefinition[]): Map<string, AllowedServer> {
  const servers = new Map<string, AllowedServer>();
  for (const definition of definitions) {
    const url = isServed(definition) && URL.parse(definition.stdio ? STDIO_URL : definition.url);
    if (!url || servers.has(definition.name)) continue;
    const headers: Record<string, string> = { "user-agent": `sbx/${VERSION}` };
    for (const [name, value] of Object.entries(definition.headers)) headers[name.toLowerCase()] = value;
    servers.set(definition.name, { definition, url, origin: url.origin, headers });
  }
  return servers;
}

/** Reads the payload of an `Open` frame. @returns `undefined` when it is malformed */
export function readRequest(
  payload: Uint8Array,
): { head: RequestHead; body: Uint8Array<ArrayBuffer> } | undefined {
  const end = payload.indexOf(10);
  try {
    const head = JSON.parse(new TextDecoder().decode(payload.subarray(0, end)));
    const { server, method, url, headers } = head;
    const isText = [server, method, url].every((text) => typeof text === "string");
    if (end < 0 || !isText || typeof headers !== "object" || headers === null) return undefined;
    return { head, body: payload.slice(end + 1) };
  } catch {
    return undefined;
  }
}

/**
 * Finds the server of a request: scheme, host and port have to match one of `candidates` exactly, or the whole URL that
 * of a stdio server.
 *
 * @param candidates definitions of the server's name, `undefined` where it has no definition
 * @returns the reason as text when the request is not allowed
 */
export function findServer(
  { method, url }: RequestHead,
  ...candidates: (AllowedServer | undefined)[]
): { to: URL; server: AllowedServer } | string {
  const servers = candidates.filter((server) => server !== undefined);
  if (servers.length === 0) return "no enabled server has this name";
  const to = url === servers[0].url.href ? servers[0].url : URL.parse(url);
  const server = servers.find(({ definition, url: { href }, origin }) =>
    definition.stdio ? href === to?.href : origin === to?.origin
  );
  if (!to || !server || to.username || to.password) {
    return `only ${servers[0].definition.stdio ? STDIO_URL : servers[0].origin} is allowed for this server`;
  }
  return (server.definition.stdio ? STDIO_METHODS : METHODS).includes(method)
    ? { to, server }
    : `${method} is not a method of the MCP transport`;
}

/** Headers of the request; the definition's override the aggregator's. */
export function headersOf({ headers }: RequestHead, server: AllowedServer): Record<string, string> {
  const all: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (ALLOWED_HEADER.test(name) && typeof value === "string") all[name] = value;
  }
  return Object.assign(all, server.headers);
}

const REASONS: [RegExp, string][] = [
  [/connection refused/i, "the connection was refused"],
  [/dns error|lookup address|resolve/i, "the host name does not resolve"],
  [/certificate/i, "the TLS certificate is not trusted"],
  [/tls|ssl|handshake|corrupt message/i, "the TLS handshake failed"],
  [/timed out|timeout/i, "the server did not answer in time"],
  [/unreachable/i, "the network is unreachable"],
  [/reset|broken pipe|closed|eof|incomplete|terminated/i, "the connection was interrupted"],
  [/port \d+ (are|is) blocked/i, "fetch does not allow this port"],
];

/** The reason why a request failed, without text of a library. */
export function failureText(error: unknown): string {
  const text = error instanceof Error ? `${error.message} ${(error.cause as Error)?.message ?? ""}` : "";
  return REASONS.find(([pattern]) => pattern.test(text))?.[1] ?? "the request failed";
}
