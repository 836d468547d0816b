/** The host's end of the private wire: the only way from the aggregator to the network, and where credentials go in. */
import type { AggregatorDefinition } from "../definition.ts";
import type { Kind as ListKind, Progress } from "../entry.ts";
import { DATA_BYTES, type Frame, FrameWire, Kind, LIST_BITS, WINDOW } from "./frame.ts";
import { Scrubber } from "./scrub.ts";
import { destinationOf, failureText, headersOf, readOpen, type Target, targetsOf } from "./target.ts";

/**
 * The secret behind a credential reference, for this URL and no other; undefined when there is none or it is not for this
 * host. `refused` is true when the server turned the last one down, so that an expired token can be renewed.
 */
export type CredentialResolver = (ref: string, url: URL, refused: boolean) => Promise<string | undefined>;

export interface OutboundOptions {
  resolve?: CredentialResolver;
  onProgress?(id: number, progress: Progress): void;
  onChanged?(kinds: ListKind[]): void;
}

const LISTS = ["tools", "resources", "prompts"] as const;
/** Requests under way at once; every server may have a stream, and calls beside it. */
const EXCHANGES_MAX = 4096;

const KEPT_HEADERS = ["content-type", "location", "retry-after", "mcp-session-id", "mcp-protocol-version"];
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** One request on its way. */
interface Exchange {
  abort: AbortController;
  target: Target;
  credit: number;
  more?: () => void;
}

/** Carries the requests of one aggregator. */
export class OutboundServer {
  readonly #options: OutboundOptions;
  readonly #http = Deno.createHttpClient({ poolMaxIdlePerHost: 64 });
  readonly #exchanges = new Map<number, Exchange>();
  #targets: Map<string, Target>;
  #former = new Map<string, Target>();
  readonly #syncs = new Map<number, () => void>();
  #lastSync = 0;
  #wire?: FrameWire;

  constructor(definitions: AggregatorDefinition[], options: OutboundOptions = {}) {
    this.#targets = targetsOf(definitions);
    this.#options = options;
  }

  /** Requests may go to these servers too; those allowed before are, until {@linkcode settle}, told goodbye. */
  allow(definitions: AggregatorDefinition[]): void {
    this.#former = this.#targets;
    this.#targets = targetsOf(definitions);
  }

  /** Ends what still goes to servers that are not allowed any more. */
  settle(): void {
    this.#former = new Map();
    const allowed = new Set(this.#targets.values());
    for (const { abort, target } of this.#exchanges.values()) if (!allowed.has(target)) abort.abort();
  }

  /** Tells the aggregator that nobody waits for the request of this id. */
  abort(id: number): void {
    this.#wire?.send(Kind.Abort, id);
  }

  /** Settles when all that the aggregator has sent until now was taken: its pipe and this wire keep no common order. */
  sync(): Promise<void> {
    const wire = this.#wire;
    if (!wire) return Promise.resolve();
    const id = this.#lastSync = (this.#lastSync + 1) >>> 0;
    return new Promise((resolve) => {
      this.#syncs.set(id, resolve);
      wire.send(Kind.Sync, id);
    });
  }

  /** Serves until the connection ends, and ends everything with it. */
  async serve(conn: Deno.Conn): Promise<void> {
    const wire = this.#wire = new FrameWire(conn);
    await wire.receive((frame) => this.#take(wire, frame));
    this.close();
  }

  close(): void {
    this.#wire?.close();
    this.#wire = undefined;
    for (const resolve of this.#syncs.values()) resolve();
    this.#syncs.clear();
    for (const { abort } of this.#exchanges.values()) abort.abort();
    try {
      this.#http.close();
    } catch {
      // closed already
    }
  }

  /** @returns false when the other end breaks the protocol */
  #take(wire: FrameWire, { kind, id, payload }: Frame): boolean {
    const exchange = this.#exchanges.get(id);
    switch (kind) {
      case Kind.Open:
        if (exchange || this.#exchanges.size >= EXCHANGES_MAX) return false;
        this.#open(wire, id, payload);
        return true;
      case Kind.Cancel:
        exchange?.abort.abort();
        return true;
      case Kind.Credit:
        if (payload.length !== 4) return false;
        if (exchange) {
          exchange.credit += new DataView(payload.buffer, payload.byteOffset).getUint32(0);
          exchange.more?.();
        }
        return true;
      case Kind.Progress: {
        const progress = readProgress(payload);
        if (progress) this.#options.onProgress?.(id, progress);
        return progress !== undefined;
      }
      case Kind.Sync:
        this.#syncs.get(id)?.();
        return this.#syncs.delete(id);
      case Kind.Changed:
        this.#options.onChanged?.(LISTS.filter((kind) => id & LIST_BITS[kind]));
        return true;
      default:
        return false;
    }
  }

  async #open(wire: FrameWire, id: number, payload: Uint8Array): Promise<void> {
    const request = readOpen(payload);
    if (!request) return wire.send(Kind.Fail, id, "a request that cannot be read");
    const { open, body } = request;
    const destination = destinationOf(open, this.#targets.get(open.server), this.#former.get(open.server));
    if (typeof destination === "string") return wire.send(Kind.Fail, id, destination);
    const { to, target } = destination;
    const exchange: Exchange = { abort: new AbortController(), target, credit: WINDOW };
    this.#exchanges.set(id, exchange);
    try {
      await this.#carry(wire, id, exchange, to, {
        method: open.method,
        headers: headersOf(open, target),
        body: open.method === "POST" ? body : undefined,
        redirect: "manual",
        signal: exchange.abort.signal,
        client: this.#http,
      });
    } catch (error) {
      wire.send(Kind.Fail, id, error instanceof Refused ? error.message : failureText(error));
      // What is left of the answer is not read.
      exchange.abort.abort();
    } finally {
      this.#exchanges.delete(id);
    }
  }

  async #carry(
    wire: FrameWire,
    id: number,
    exchange: Exchange,
    to: URL,
    init: RequestInit & { headers: Record<string, string>; client: Deno.HttpClient },
  ): Promise<void> {
    const { auth } = exchange.target.definition;
    let secret = auth && await this.#secret(auth.credential_ref, to, false);
    let response = await send(to, init, secret);
    if (auth && response.status === 401) {
      const renewed = await this.#secret(auth.credential_ref, to, true);
      if (renewed !== secret) {
        await response.body?.cancel();
        secret = renewed;
        response = await send(to, init, secret);
      }
    }
    const scrubber = secret === undefined ? undefined : new Scrubber(secret, auth!.credential_ref);
    const head = { status: response.status, headers: keptHeaders(response.headers) };
    const text = JSON.stringify(head);
    wire.send(Kind.Head, id, secret === undefined ? text : text.replaceAll(secret, auth!.credential_ref));
    for await (const chunk of isSmall(response) ? [await response.bytes()] : response.body ?? []) {
      await this.#data(wire, id, exchange, scrubber ? scrubber.pass(chunk) : chunk);
    }
    if (scrubber) await this.#data(wire, id, exchange, scrubber.end());
    wire.send(Kind.End, id);
  }

  /** Sends bytes as far as the other end has room for them. */
  async #data(wire: FrameWire, id: number, exchange: Exchange, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      while (exchange.credit <= 0) await this.#credit(exchange);
      const part = bytes.subarray(at, at + Math.min(exchange.credit, DATA_BYTES));
      exchange.credit -= part.length;
      wire.send(Kind.Data, id, part);
      at += part.length;
    }
  }

  async #credit(exchange: Exchange): Promise<void> {
    const { signal } = exchange.abort;
    signal.throwIfAborted();
    await new Promise<void>((resolve) => {
      exchange.more = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    signal.throwIfAborted();
  }

  async #secret(ref: string, to: URL, refused: boolean): Promise<string> {
    if (to.protocol !== "https:" && !LOOPBACK.test(to.hostname)) {
      throw new Refused("a credential is not sent over plain http; its URL has to be https");
    }
    const secret = await this.#options.resolve?.(ref, to, refused).catch(() => undefined);
    // An unresolved reference is refused, never sent (contracts.md §9).
    if (!secret) throw new Refused(`its credential ${ref} is not known, or is not for ${to.host}`);
    return secret;
  }
}

/** Whether the whole body can be taken at once: one read instead of a stream. */
function isSmall({ headers, body }: Response): boolean {
  const length = headers.get("content-length");
  return body !== null && length !== null && !headers.has("content-encoding") && Number(length) <= DATA_BYTES;
}

/** What an MCP client looks at; cookies and the rest stay here. */
function keptHeaders(headers: Headers): [string, string][] {
  const kept: [string, string][] = [];
  for (const name of KEPT_HEADERS) {
    const value = headers.get(name);
    if (value !== null) kept.push([name, value]);
  }
  return kept;
}

/** A refusal in words that the aggregator may show. */
class Refused extends Error {}

function send(to: URL, init: RequestInit & { headers: Record<string, string> }, secret: string | undefined) {
  if (secret !== undefined) init.headers.authorization = `Bearer ${secret}`;
  return fetch(to, init);
}

function readProgress(payload: Uint8Array): Progress | undefined {
  try {
    const { progress, total, message } = JSON.parse(new TextDecoder().decode(payload));
    if (typeof progress !== "number") return undefined;
    return {
      progress,
      ...(typeof total === "number" && { total }),
      ...(typeof message === "string" && { message }),
    };
  } catch {
    return undefined;
  }
}
