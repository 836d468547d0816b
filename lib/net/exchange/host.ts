/** Requests that the host makes itself (MCP's `fetch_http`): the same path, the same rules, actor `host`. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { EventProcess } from "../../event/mod.ts";
import { type Decision, summary } from "../../policy/mod.ts";
import { parseAuthority } from "./authority.ts";
import { WholeBody } from "../message/body.ts";
import { Exchange, type ExchangeContext } from "./exchange.ts";
import { ClientLost, ConnectionLost } from "../fault.ts";
import { endToEnd, type Header } from "../message/header.ts";
import { bytewise } from "../message/latin1.ts";
import type { Outlet } from "./outlet.ts";

/** A request of the host's own. */
export interface HostRequest {
  method: string;
  /** `http` or `https` */
  url: string;
  /** header values may hold refs, and no secrets */
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** the program on whose behalf it is made, as its event names it */
  process?: EventProcess;
  /** ends the request */
  signal?: AbortSignal;
}

/** What policy says of a request that it refuses. */
export class NetBlocked extends SbxError {
  constructor(readonly decision: Decision) {
    super(
      "policy.blocked",
      // The remedy is in it already.
      summary(decision),
      { hint: `sbx why ${decision.event_id} shows the record` },
    );
  }
}

/** @throws {SbxError} see `NetProxy.send` */
export async function sendFromHost(context: ExchangeContext, request: HostRequest): Promise<Response> {
  const { method, headers = {}, body = "", process, signal } = request;
  const url = URL.parse(request.url);
  const authority = url && parseAuthority(url.host);
  if (!url || !authority || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new SbxError("request.invalid", "the URL of the request is no http or https URL", {
      hint: "write it with its host and without a password",
    });
  }
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/.test(method)) {
    throw new SbxError("request.invalid", "the request's method is no HTTP method");
  }
  const scheme = url.protocol.slice(0, -1);
  const fields = endToEnd(Object.entries(headers).map(asHeader)).filter(([name]) => name !== "host");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const outlet = new HostOutlet(method, signal);
  new Exchange(context, {
    by: { actor: "host", ...(process && { process }) },
    scheme,
    host: authority.host,
    port: authority.port ?? (scheme === "https" ? 443 : 80),
    method,
    target: url.pathname + url.search,
    headers: fields,
    body: new WholeBody(bytes),
    headBytes: 0,
    trailers: false,
  }, outlet).run().catch((error) => outlet.fail(error));
  return await outlet.response;
}

function asHeader([name, value]: [string, string]): Header {
  if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && /^[\t\x20-\x7e\x80-\uffff]*$/.test(value)) {
    return [name.toLowerCase(), bytewise(value)];
  }
  throw new SbxError(
    "request.invalid",
    "a header of the request has a name or a value that no header can have",
  );
}

/** Turns what an exchange writes into a `Response`; its body is read as fast as it is wanted. */
class HostOutlet implements Outlet {
  readonly signal: AbortSignal;
  readonly response: Promise<Response>;
  readonly #method: string;
  readonly #settled = Promise.withResolvers<Response>();
  readonly #aborted = new AbortController();
  #writer?: WritableStreamDefaultWriter<Uint8Array>;
  #gone?: () => void;

  constructor(method: string, signal: AbortSignal | undefined) {
    this.#method = method;
    this.response = this.#settled.promise;
    this.signal = signal ? AbortSignal.any([signal, this.#aborted.signal]) : this.#aborted.signal;
    this.signal.addEventListener("abort", () => this.#gone?.());
  }

  whole(status: number, headers: readonly Header[], body: Uint8Array): Promise<void> {
    this.#settled.resolve(
      responseOf(status, headers, isBodiless(this.#method, status) ? null : body.slice()),
    );
    return Promise.resolve();
  }

  blocked(decision: Decision): Promise<void> {
    this.#settled.reject(new NetBlocked(decision));
    return Promise.resolve();
  }

  failed(error: SbxError): Promise<void> {
    this.#settled.reject(error);
    return Promise.resolve();
  }

  begin(status: number, headers: readonly Header[]): void {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    this.#writer = writable.getWriter();
    this.#writer.closed.catch(() => this.#aborted.abort());
    this.#settled.resolve(responseOf(status, headers, isBodiless(this.#method, status) ? null : readable));
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  async write(piece: Uint8Array): Promise<void> {
    try {
      await this.#writer!.write(piece.slice());
    } catch (cause) {
      throw new ClientLost(new ConnectionLost("wants no more of the answer", false, cause));
    }
  }

  async end(): Promise<void> {
    await this.#writer!.close().catch(() => {});
  }

  cut(): void {
    this.#writer?.abort(new SbxError("upstream.failed", "the answer was broken off")).catch(() => {});
  }

  watch(gone: () => void): void {
    this.#gone = gone;
    if (this.signal.aborted) gone();
  }

  /** Nothing that would write an answer was left to do it. */
  fail(error: unknown): void {
    this.#settled.reject(
      error instanceof ClientLost
        ? new SbxError("request.cancelled", "the request was given up", { cause: error })
        : asSbxError(error, "sending the request"),
    );
  }
}

function responseOf(status: number, headers: readonly Header[], body: BodyInit | null): Response {
  return new Response(body, {
    status,
    headers: headers.map(([name, value]): [string, string] => [name, value]),
  });
}

function isBodiless(method: string, status: number): boolean {
  return method === "HEAD" || status === 204 || status === 205 || status === 304;
}
