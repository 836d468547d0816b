/** Requests of the host (MCP's `fetch_http`), on the guest's path and under its rules, with actor `host`. */
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import { type EventProcess, processOf } from "../../event/mod.ts";
import { type Decision, guestLine } from "../../policy/mod.ts";
import { ClientLost, ConnectionLost } from "../fault.ts";
import { WholeBody } from "../message/body.ts";
import { isMethod } from "../message/head.ts";
import { dropHopByHop, dropImitations, type Header } from "../message/header.ts";
import { ByteBuffer, encodeByteText, NO_BYTES } from "../message/bytes.ts";
import { parseAuthority } from "./request.ts";
import type { ExchangeContext, Outlet } from "./context.ts";
import { describeRequest, httpDraft, NO_HTTP_BODY } from "./draft.ts";
import { HttpExchange } from "./exchange.ts";

/** A request of the host. */
export interface HostRequest {
  method: string;
  /** `http` or `https` */
  url: string;
  /** values may hold refs, not secrets */
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** process in the event */
  process?: EventProcess;
  /** cancels the request */
  signal?: AbortSignal;
}

/** A request that policy blocked. */
export class RequestBlocked extends SbxError {
  constructor(readonly decision: Decision) {
    // Tools of the guest quote it.
    super("policy.blocked", guestLine(decision), { hint: `sbx why ${decision.event_id} shows the record` });
  }
}

/** Sends a request of the host. @throws {SbxError} as `NetProxy.send` */
export async function sendFromHost(context: ExchangeContext, request: HostRequest): Promise<Response> {
  const { method, headers = {}, body = "", process, signal } = request;
  const url = URL.parse(request.url);
  const authority = url && parseAuthority(url.host);
  if (!url || !authority || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new SbxError("request.invalid", "the request needs an http or https URL", {
      hint: "write it with a host and without a password",
    });
  }
  if (!isMethod(method)) {
    throw new SbxError("request.invalid", "the request has an invalid HTTP method");
  }
  const scheme = url.protocol.slice(0, -1);
  const { path, fault } = canonicalPath(url.pathname);
  if (fault !== undefined) {
    throw new SbxError("request.invalid", `the request cannot be read safely: ${fault}`, {
      hint: "write the path without it",
    });
  }
  const { kept, imitated } = dropImitations(Object.entries(headers).map(parseHeader));
  const fields = dropHopByHop(kept).filter(([name]) => name !== "host");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const outlet = new HostOutlet(method, signal);
  new HttpExchange(context, {
    by: { actor: "host", ...(process && { process }) },
    scheme,
    host: authority.host,
    port: authority.port ?? (scheme === "https" ? 443 : 80),
    method,
    target: path + url.search,
    ...(path !== url.pathname && { rawPath: url.pathname }),
    headers: fields,
    ...(imitated.length > 0 && { imitated }),
    body: new WholeBody(bytes),
    headBytes: 0,
    trailers: false,
  }, outlet).run().catch((error) => outlet.fail(error));
  return await outlet.response;
}

/** Longest document of a registry, in `bytes` (docs/design/contracts/14-limits.md §14). */
const DOCUMENT_MAX = 4 * 1024 * 1024;
/** Longest wait for a document, in `ms`. */
const DOCUMENT_MS = timeLimit(60_000);
/** Name of the program in the events of documents. */
const CACHE_PROGRAM = "sbx-cache";

/**
 * Fetches a document that vouches for artefacts of the cache. Rules decide on it; a person is not asked.
 *
 * @param maxBytes absent: the limit of usual documents
 * @returns `undefined` for a document that rules do not allow, or that did not come whole, with status 200
 */
export async function fetchDocument(
  context: ExchangeContext,
  url: string,
  maxBytes = DOCUMENT_MAX,
): Promise<Uint8Array | undefined> {
  const process = processOf(CACHE_PROGRAM)!;
  if (!mayFetch(context, url, process)) return undefined;
  const signal = AbortSignal.timeout(DOCUMENT_MS);
  const headers = { "accept": "*/*", "accept-encoding": "identity" };
  const response = await sendFromHost(context, { method: "GET", url, headers, process, signal });
  const body = new ByteBuffer();
  for await (const piece of response.body ?? []) {
    body.add(piece);
    if (body.count > maxBytes) return undefined;
  }
  return response.status === 200 ? body.bytes : undefined;
}

/** Asks the rules without a record: the request is recorded when it is sent. */
function mayFetch({ gate }: ExchangeContext, url: string, process: EventProcess): boolean {
  const { protocol, hostname, port, pathname, search } = new URL(url);
  const described = describeRequest(
    {
      by: { actor: "host", process },
      scheme: protocol.slice(0, -1),
      host: hostname,
      port: Number(port || 443),
      method: "GET",
      target: pathname + search,
      headers: [],
      body: new WholeBody(NO_BYTES),
      headBytes: 0,
      trailers: false,
    },
    { method: "GET", target: pathname + search, headers: [] },
    { first: NO_BYTES, complete: true, rest: new WholeBody(NO_BYTES) },
    NO_HTTP_BODY,
    undefined,
    (text) => text,
  );
  return gate.preview(httpDraft({ actor: "host", process }, described)).allowed;
}

function parseHeader([name, value]: [string, string]): Header {
  if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && /^[\t\x20-\x7e\x80-\uffff]*$/.test(value)) {
    return [name.toLowerCase(), encodeByteText(value)];
  }
  throw new SbxError("request.invalid", "a header of the request has an invalid name or value");
}

/** Makes a `Response` of an exchange; its body is read at the pace of its reader. */
class HostOutlet implements Outlet {
  readonly signal: AbortSignal;
  readonly response: Promise<Response>;
  readonly #method: string;
  readonly #settled = Promise.withResolvers<Response>();
  readonly #aborted = new AbortController();
  #writer?: WritableStreamDefaultWriter<Uint8Array>;
  #onGone?: () => void;

  constructor(method: string, signal: AbortSignal | undefined) {
    this.#method = method;
    this.response = this.#settled.promise;
    this.signal = signal ? AbortSignal.any([signal, this.#aborted.signal]) : this.#aborted.signal;
    this.signal.addEventListener("abort", () => this.#onGone?.());
  }

  sendWhole(status: number, headers: readonly Header[], body: Uint8Array): Promise<void> {
    this.#settled.resolve(
      responseOf(status, headers, isBodiless(this.#method, status) ? null : body.slice()),
    );
    return Promise.resolve();
  }

  sendBlock(decision: Decision): Promise<void> {
    this.#settled.reject(new RequestBlocked(decision));
    return Promise.resolve();
  }

  sendError(error: SbxError): Promise<void> {
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
      throw new ClientLost(new ConnectionLost("cancelled the response", false, cause));
    }
  }

  async end(): Promise<void> {
    await this.#writer!.close().catch(ignore("the caller has cancelled the response"));
  }

  cut(): void {
    this.#writer?.abort(new SbxError("upstream.failed", "the response was cut off")).catch(
      ignore("the caller has cancelled the response"),
    );
  }

  watch(onGone: () => void): void {
    this.#onGone = onGone;
    if (this.signal.aborted) onGone();
  }

  /** Rejects the response after an error that the exchange could not send. */
  fail(error: unknown): void {
    this.#settled.reject(
      error instanceof ClientLost
        ? new SbxError("request.cancelled", "the request was cancelled", { cause: error })
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
