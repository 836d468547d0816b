/**
 * Resolvers of the host: their addresses, from settings or the system, and the client that queries them for a
 * guest.
 */
import { parseAddress, plainHost } from "../../base/address/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { PacketError } from "./guard.ts";
import { RESOLVER_PENDING_MAX, RESOLVER_TRIES, RESOLVER_TRY_MS } from "./limit.ts";
import { type DnsQuestion, EDE, readAnswer, type ResolverAnswer, writeQuery } from "./packet.ts";
import type { Socket } from "node:dgram";
import { closeQuietly, readExactly, writeAll } from "../../base/wire/mod.ts";

/** Address of a DNS resolver. */
export interface Resolver {
  hostname: string;
  port: number;
}

const DNS_PORT = 53;

/** Most resolvers; resolv.conf allows three. */
const RESOLVERS_MAX = 8;

/**
 * Parses the resolvers of a setting: `192.0.2.1`, `192.0.2.1:5353`, `2001:db8::1`, `[2001:db8::1]:5353`.
 *
 * @throws {SbxError} `dns.resolver.invalid`, naming the invalid entry
 */
export function parseResolvers(list: readonly string[]): Resolver[] {
  if (list.length > RESOLVERS_MAX) {
    throw new SbxError(
      "dns.resolver.invalid",
      `${list.length} DNS resolvers, more than the limit of ${RESOLVERS_MAX}`,
    );
  }
  return list.map((text) => {
    const endpoint = parseEndpoint(text, DNS_PORT);
    if (endpoint) return endpoint;
    throw new SbxError("dns.resolver.invalid", `"${text}" is not the address of a DNS resolver`, {
      hint: "write 192.0.2.1, 192.0.2.1:5353 or [2001:db8::1]:5353; names are not allowed",
    });
  });
}

/** Parses `address`, `address:port` and `[address]:port`; `undefined` for other text. */
export function parseEndpoint(text: string, defaultPort?: number): Resolver | undefined {
  const match = text.match(/^\[([0-9a-fA-F:.]+)\](?::(\d{1,5}))?$/) ??
    text.match(/^([\d.]+)(?::(\d{1,5}))?$/) ??
    text.match(/^([0-9a-fA-F:.]+)()$/);
  if (!match) return undefined;
  const [, hostname, digits] = match;
  const port = digits ? Number(digits) : defaultPort;
  const bytes = parseAddress(hostname);
  const isPlain = bytes && (bytes.length === 16 || /^\d+(\.\d+){3}$/.test(hostname));
  return isPlain && port !== undefined && port >= 1 && port <= 65_535 ? { hostname, port } : undefined;
}

/**
 * Resolvers of this machine. Empty without any: then questions that need a resolver fail with that reason.
 */
export async function systemResolvers(path = "/etc/resolv.conf"): Promise<Resolver[]> {
  const text = await Deno.readTextFile(path).catch(() => "");
  const addresses = text.split("\n").flatMap((line) => line.match(/^\s*nameserver\s+(\S+)/)?.[1] ?? []);
  return addresses.flatMap((address) => parseEndpoint(address.split("%")[0], DNS_PORT) ?? [])
    .slice(0, RESOLVERS_MAX);
}

// Queries resolvers: over UDP, over TCP for truncated answers, one resolver after another until one answers.

/** No resolver answered. `code` is the Extended DNS Error of the reason. */
export class ResolverError extends Error {
  override name = "ResolverError";

  constructor(message: string, readonly code: number = EDE.NO_REACHABLE_AUTHORITY) {
    super(message);
  }
}

/** Client of one guest's resolvers. Equal questions at the same time share one query. */
export class ResolverClient {
  readonly #resolvers: readonly Resolver[];
  readonly #tryMs: number;
  readonly #pending = new Map<string, Promise<ResolverAnswer>>();
  /** index of the resolver to query first: the last one that answered */
  #first = 0;

  constructor(resolvers: readonly Resolver[], tryMs = RESOLVER_TRY_MS) {
    this.#resolvers = resolvers;
    this.#tryMs = tryMs;
  }

  /** @throws {ResolverError} no resolver gives a usable answer */
  query(question: DnsQuestion): Promise<ResolverAnswer> {
    const key = `${question.type} ${plainHost(question.name)}`;
    const pending = this.#pending.get(key);
    if (pending) return pending;
    if (this.#pending.size >= RESOLVER_PENDING_MAX) {
      return Promise.reject(
        new ResolverError(`${RESOLVER_PENDING_MAX} questions are pending at resolvers, the limit`),
      );
    }
    const answer = this.#query(question).finally(() => this.#pending.delete(key));
    this.#pending.set(key, answer);
    return answer;
  }

  async #query(question: DnsQuestion): Promise<ResolverAnswer> {
    if (this.#resolvers.length === 0) throw new ResolverError("this machine has no DNS resolver");
    let failure = new ResolverError("");
    // Each resolver gets a try, and a single one several: a lost packet is not an answer.
    const tries = Math.max(this.#resolvers.length, RESOLVER_TRIES);
    const first = this.#first;
    const deadline = performance.now() + RESOLVER_TRIES * this.#tryMs;
    for (let at = 0; at < tries && performance.now() < deadline; at++) {
      const index = (first + at) % this.#resolvers.length;
      try {
        const answer = await this.#exchange(this.#resolvers[index], question);
        if (answer.rcode === "NOERROR" || answer.rcode === "NXDOMAIN") {
          this.#first = index;
          return answer;
        }
        failure = new ResolverError(`the resolver answered ${answer.rcode}`);
      } catch (error) {
        failure = describeFailure(error);
      }
    }
    throw failure;
  }

  async #exchange(resolver: Resolver, question: DnsQuestion): Promise<ResolverAnswer> {
    const answer = await queryUdp(resolver, question, this.#tryMs);
    return answer.truncated ? await queryTcp(resolver, question, this.#tryMs) : answer;
  }
}

function describeFailure(error: unknown): ResolverError {
  if (error instanceof ResolverError) return error;
  if (error instanceof ResolverTimeout) return new ResolverError("the resolver did not answer in time");
  if (error instanceof PacketError) {
    return new ResolverError(`the resolver's answer is invalid: ${error.message}`);
  }
  return new ResolverError("the resolver cannot be reached", EDE.NETWORK_ERROR);
}

// Sends one question to one resolver, over UDP or TCP.

/** A resolver did not answer in time. */
class ResolverTimeout extends Error {
  override name = "ResolverTimeout";
}

/**
 * Queries over UDP, from a port of its own and with a random id: a forged answer has to guess both. Packets
 * that do not match are ignored.
 */
async function queryUdp(
  { hostname, port }: Resolver,
  question: DnsQuestion,
  timeoutMs: number,
): Promise<ResolverAnswer> {
  // Loaded with the first uncached question, so that a session's start does not wait for it.
  const { createSocket } = await import("node:dgram");
  const socket: Socket = createSocket(hostname.includes(":") ? "udp6" : "udp4");
  const id = randomId();
  const { promise, resolve, reject } = Promise.withResolvers<ResolverAnswer>();
  const timer = setTimeout(() => reject(new ResolverTimeout()), timeoutMs);
  try {
    socket.on("error", reject);
    socket.on("message", (message: Uint8Array) => {
      try {
        const answer = readAnswer(message, id, question);
        if (answer) resolve(answer);
      } catch (error) {
        reject(error);
      }
    });
    // On a connected socket, the kernel drops packets of other senders and reports a closed port.
    socket.connect(port, hostname, () => socket.send(writeQuery(id, question)));
    return await promise;
  } finally {
    clearTimeout(timer);
    closeQuietly(socket);
  }
}

/** Queries over TCP, for answers up to 64 KB; a length precedes each message (RFC 1035 §4.2.2). */
async function queryTcp(
  { hostname, port }: Resolver,
  question: DnsQuestion,
  timeoutMs: number,
): Promise<ResolverAnswer> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(new ResolverTimeout()), timeoutMs);
  let conn: Deno.TcpConn | undefined;
  timeout.signal.addEventListener("abort", () => closeQuietly(conn));
  try {
    conn = await Deno.connect({ hostname, port, signal: timeout.signal });
    const id = randomId();
    const query = writeQuery(id, question);
    const message = new Uint8Array(2 + query.length);
    new DataView(message.buffer).setUint16(0, query.length);
    message.set(query, 2);
    await writeAll(conn, message);
    const length = await readExactly(conn, 2);
    const received = length && await readExactly(conn, length[0] << 8 | length[1]);
    if (!received) throw new PacketError("malformed", "a truncated answer");
    const answer = readAnswer(received, id, question);
    if (!answer) throw new PacketError("malformed", "an answer to another question");
    return answer;
  } catch (error) {
    throw timeout.signal.aborted ? timeout.signal.reason : error;
  } finally {
    clearTimeout(timer);
    closeQuietly(conn);
  }
}

function randomId(): number {
  return crypto.getRandomValues(new Uint16Array(1))[0];
}
