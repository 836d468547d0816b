/**
 * The aggregator's requests to servers, checked because it runs code that talks to untrusted
 * servers; credentials are added.
 */
import { VERSION } from "../../base/version/mod.ts";
import { type AggregatorDefinition, isServed } from "../definition.ts";
import { OutboundRefusal, type RequestHead } from "./frame.ts";
import { STDIO_URL } from "./stdio.ts";
import { isLoopbackHost } from "../../base/url/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import type { SecretFilter } from "./secret.ts";

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
 * Finds the server of a request: scheme, host and port have to match one of `candidates` exactly, or the
 * whole URL that of a stdio server.
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

// Credentials, named by the definition or from a login.

/**
 * Resolves a credential reference to its secret for one URL; `undefined` when the reference is
 * unknown or not valid for this host. `rejected` is true after the server answered 401, so that
 * an expired token can be renewed.
 */
export type CredentialResolver = (ref: string, url: URL, rejected: boolean) => Promise<string | undefined>;

/** Token of a login. */
export interface LoginToken {
  ref: string;
  secret: string;
}

/** Logins at servers (docs/design/contracts/09-credentials.md §9, "Logins"). */
export interface ServerLogins {
  /**
   * Token for a request to a server, renewed when it ends soon.
   *
   * @param rejected the token that the server has just refused; it is renewed
   * @returns `undefined` when a person has to log in
   * @throws Error with a message that may be shown
   */
  token(definition: AggregatorDefinition, to: URL, rejected?: string): Promise<LoginToken | undefined>;
  /** keeps the scopes that a server asks for, until a person logs in again */
  want(definition: AggregatorDefinition, scope: string): Promise<void>;
  /** command by which a person logs in at a server, or the reason why no login is possible */
  advice(definition: AggregatorDefinition): string;
}

type Init = RequestInit & { headers: Record<string, string> };

/** Adds credentials to requests; every secret that it sends is known to the filter first. */
export class Credentials {
  readonly #options: { resolve?: CredentialResolver; logins?: ServerLogins };
  readonly #secrets: SecretFilter;

  constructor(options: { resolve?: CredentialResolver; logins?: ServerLogins }, secrets: SecretFilter) {
    this.#options = options;
    this.#secrets = secrets;
  }

  /** Sends a request, at most twice. @throws {OutboundRefusal} the credential is missing */
  async send({ definition }: AllowedServer, to: URL, init: Init): Promise<Response> {
    const { auth } = definition;
    // With the id of a client, the ref is that of the client's secret.
    const ref = auth?.client_id === undefined ? auth?.credential_ref : undefined;
    if (ref !== undefined) return await this.#sendWithRef(ref, to, init);
    const { logins } = this.#options;
    if (logins) return await this.#sendWithLogin(logins, definition, to, init);
    if (auth) throw new OutboundRefusal("this process has no logins at servers");
    return await send(to, init);
  }

  async #sendWithRef(ref: string, to: URL, init: Init): Promise<Response> {
    const secret = await this.#resolve(ref, to, false);
    const response = await send(to, init, secret);
    if (response.status !== 401) return response;
    const renewed = await this.#resolve(ref, to, true);
    if (renewed === secret) return response;
    await response.body?.cancel();
    return await send(to, init, renewed);
  }

  async #sendWithLogin(
    logins: ServerLogins,
    definition: AggregatorDefinition,
    to: URL,
    init: Init,
  ): Promise<Response> {
    const tokenFor = async (rejected?: string) => {
      const token = await logins.token(definition, to, rejected).catch((error) => {
        throw new OutboundRefusal((error as Error).message);
      });
      if (!token) return undefined;
      requireSafe(to);
      this.#secrets.add(token.ref, token.secret);
      return token.secret;
    };
    const secret = await tokenFor();
    let response = await send(to, init, secret);
    if (response.status === 401 && secret !== undefined) {
      const renewed = await tokenFor(secret);
      if (renewed !== undefined && renewed !== secret) {
        await response.body?.cancel();
        response = await send(to, init, renewed);
      }
    }
    if (response.status !== 401 && response.status !== 403) return response;
    const { challengeOf } = await import("../oauth/mod.ts");
    const { error, scope } = challengeOf(response);
    if (response.status === 403 && error !== "insufficient_scope") return response;
    await response.body?.cancel();
    if (response.status === 401) {
      throw new OutboundRefusal(`the server needs a login (HTTP 401): ${logins.advice(definition)}`);
    }
    // Scopes are kept in the clear and shown; a server could pass the token off as one.
    if (scope !== undefined && this.#secrets.text(scope) === scope) await logins.want(definition, scope);
    throw new OutboundRefusal(
      `the login lacks a scope for this request (HTTP 403, insufficient_scope): ${logins.advice(definition)}`,
    );
  }

  async #resolve(ref: string, to: URL, rejected: boolean): Promise<string> {
    requireSafe(to);
    const secret = await this.#options.resolve?.(ref, to, rejected).catch(() => undefined);
    // An unresolved reference is refused, never sent (docs/design/contracts/09-credentials.md §9).
    if (!secret) throw new OutboundRefusal(`credential ${ref} is unknown or not valid for ${to.host}`);
    this.#secrets.add(ref, secret);
    return secret;
  }
}

function requireSafe({ protocol, hostname }: URL): void {
  if (protocol === "https:" || isLoopbackHost(hostname)) return;
  throw new OutboundRefusal("credentials are not sent over plain http; use an https URL");
}

function send(to: URL, init: Init, secret?: string): Promise<Response> {
  if (secret !== undefined) init.headers.authorization = `Bearer ${secret}`;
  return hostFetch(to, init);
}
