/**
 * Relays the response of an upstream to the client: reviewed by rules, recorded,
 * and not delayed more than needed.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { CredentialSubstitution, HttpBody, HttpEvent } from "../../event/mod.ts";
import type { Outcome, Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../fault.ts";
import { LINGER_BYTES, WHOLE_RESPONSE_MAX } from "../limit.ts";
import { type BodySource, readWhole } from "../message/body.ts";
import { type BodyKind, BodyRecorder, isUnreadable, recordBody } from "../message/text.ts";
import { NO_BYTES } from "../message/bytes.ts";
import { encodingOf } from "../message/encoding.ts";
import { eventHeaders, type Header, headerValue, mayTrail } from "../message/header.ts";
import type { BodyFilter, BodyPlace, CredentialPort, MessageFilter } from "../interface/mod.ts";
import { relayedBytes } from "../relay.ts";
import type { ExchangeReply } from "../upstream/pool.ts";
import { NO_HTTP_BODY } from "./draft.ts";
import { filterBytes, FilteredBody } from "./filtered_body.ts";
import { GrpcBody, type GrpcCounts, isGrpc } from "./grpc.ts";
import type { ResponseTap, TapEnd } from "./model_tap.ts";
import type { Outlet } from "./context.ts";
import type { SocketExchange } from "./socket.ts";
import type { Deflate } from "../websocket/mod.ts";

type HttpResponse = NonNullable<HttpEvent["response"]>;

export interface ResponseRelayOptions {
  /** passage of the request */
  passage: Passage;
  broker: CredentialPort;
  outlet: Outlet;
  /** where the response comes from */
  place: BodyPlace;
  /** IP address of the upstream; absent: none was asked */
  address?: string;
  /** the WebSocket that the client asked for */
  socket?: SocketExchange;
  /** rules read the bodies of responses */
  rulesRead: boolean;
  tap?: ResponseTap;
  /** messages of a call of gRPC */
  grpc?: GrpcCounts;
  /** the client is gone, and the response is read on for its counts: ends that after a while */
  linger(): void;
  /** records substitutions of the broker */
  record(substitutions: Iterable<CredentialSubstitution>): void;
}

export class ResponseRelay {
  readonly #options: ResponseRelayOptions;
  #filter?: BodyFilter;
  /** the upstream answers by gRPC */
  #isGrpc = false;
  /** changes the messages of gRPC */
  #messages?: MessageFilter;
  /** digest of the copy in the cache that the body is */
  #cacheDigest?: string;
  /** the body is encoded, or a part of one: it cannot be searched */
  #isHidden = false;

  constructor(options: ResponseRelayOptions) {
    this.#options = options;
  }

  /**
   * Relays a response to its end. An error before its first byte is thrown; a later error
   * cuts the response and is recorded.
   *
   * @throws {ConnectionLost | MessageFault | SbxError} nothing was sent to the client
   * @throws {ClientLost}
   */
  async relay({ response, exchange }: ExchangeReply): Promise<void> {
    const { tap, passage, broker, place } = this.#options;
    passage.markFirstByte();
    this.#cacheDigest = response.cacheDigest;
    try {
      const headers = this.#captureFields(response.headers);
      if (response.upgraded) return await this.#relayUpgraded(response.upgraded, headers, response.deflate);
      this.#isHidden = encodingOf(headers) !== undefined || isPartial(response.status);
      tap?.head(response.status, headers);
      const { length } = response.body;
      // A client that only says that it calls by gRPC gets what any other gets.
      this.#isGrpc = this.#options.grpc !== undefined && isGrpc(headers) && !isBodiless(response.status);
      // An answer of gRPC has trailers behind it.
      if (length !== undefined && length <= WHOLE_RESPONSE_MAX && !this.#isGrpc) {
        const body = length === 0
          ? NO_BYTES
          : response.body.takeWhole?.() ?? await readWhole(response.body, length);
        try {
          // Once the body is there: a secret may have been sent to its host meanwhile.
          if (broker.guards(place) || response.status >= ERROR_STATUS) this.#search(response.status);
          await this.#relayWhole(response.status, headers, body, response.declared);
        } finally {
          // Only now: the next response on the connection may overwrite the body.
          exchange.done();
        }
      } else {
        this.#search(response.status);
        if (await this.#relayStream(response.status, headers, response.body)) exchange.done();
      }
    } finally {
      // No effect on an exchange that is done.
      exchange.abort();
    }
  }

  /**
   * Relays a short response, read whole before the client gets a byte: rules see
   * its text and can still block it.
   */
  async #relayWhole(
    status: number,
    headers: Header[],
    bytes: Uint8Array,
    declared: string | undefined,
  ): Promise<void> {
    const { broker, outlet, passage, tap, rulesRead } = this.#options;
    const filter = this.#filter;
    const fields = broker.scrubFields(headers);
    const body = filter ? filterBytes(bytes, filter) : bytes;
    if (filter) this.#options.record(filter.substitutions);
    tap?.chunk(body);
    const httpBody = body.length > 0
      ? await recordBody(body, body.length, { ...this.#kindOf(headers, fields), forRules: rulesRead })
      : NO_HTTP_BODY;
    if (rulesRead && isUnreadable(httpBody)) {
      throw new MessageFault("an encoding that hides its body from rules");
    }
    const response = this.#describeFields(status, fields, body.length, httpBody);
    const block = passage.review(response);
    const outcome: Outcome = { response };
    try {
      if (block) {
        outcome.error = BLOCKED;
        await outlet.sendBlock(block);
      } else await this.#sendWhole(status, headers, body, declared);
    } catch (error) {
      outcome.error = errorText(error);
      throw error;
    } finally {
      this.#finish(outcome, { complete: true });
    }
  }

  async #sendWhole(status: number, headers: Header[], body: Uint8Array, declared?: string): Promise<void> {
    const { outlet, tap } = this.#options;
    if (!tap?.strips) {
      return await outlet.sendWhole(status, headers, body, body.length === 0 ? declared : undefined);
    }
    const [first, rest] = [tap.forClient(body), tap.clientEnd()];
    await outlet.sendWhole(status, headers, joinBytes([first, rest]));
  }

  /** Relays a long response as it arrives. @returns true when it was complete */
  async #relayStream(status: number, headers: Header[], body: BodySource): Promise<boolean> {
    const { outlet, tap } = this.#options;
    const filter = this.#filter;
    if (await this.#isBlocked(this.#describe(status, headers, 0, { ...NO_HTTP_BODY, truncated: true }))) {
      return false;
    }
    const source = this.#sourceOf(body, filter);
    const recorder = new BodyRecorder();
    let error: string | undefined;
    let isRead = false;
    let lost: ClientLost | undefined;
    /** Writes to the client; without it, a counted response is read on. */
    const toClient = async (write: () => Promise<void>) => {
      if (lost) {
        if (recorder.size <= LINGER_BYTES) return;
        throw lost;
      }
      try {
        await write();
      } catch (cause) {
        if (!(cause instanceof ClientLost) || !tap?.isCounted) throw cause;
        lost = cause;
        this.#options.linger();
      }
    };
    try {
      outlet.begin(status, headers, tap?.strips ? undefined : source.length);
      if (!source.ready && !source.done) await toClient(() => outlet.flush());
      for (let piece = await source.read(); piece !== null; piece = await source.read()) {
        this.#requireReadable();
        recorder.add(piece);
        tap?.chunk(piece);
        const shown = tap?.strips ? tap.forClient(piece) : piece;
        if (shown.length > 0) await toClient(() => outlet.write(shown));
      }
      isRead = true;
      const rest = tap?.strips ? tap.clientEnd() : NO_BYTES;
      if (rest.length > 0) await toClient(() => outlet.write(rest));
      await toClient(() => outlet.end(this.#captureFields(source.trailers.filter(mayTrail))));
      if (lost) throw lost;
      return true;
    } catch (failure) {
      const cause = lost ?? failure;
      error = errorText(cause);
      outlet.cut();
      if (cause instanceof ClientLost) throw cause;
      return false;
    } finally {
      const changes = this.#messages ?? filter;
      if (changes) this.#options.record(changes.substitutions);
      const httpBody = await recorder.record(this.#kindOf(headers), error === undefined);
      const response = {
        ...this.#describe(status, headers, recorder.size, httpBody, source.trailers),
        ...(body.noCloseNotify && { no_close_notify: true }),
      };
      this.#finish({ response, ...(error !== undefined && { error }) }, { complete: isRead });
    }
  }

  /** The body as the client gets it. */
  #sourceOf(body: BodySource, filter: BodyFilter | undefined): BodySource {
    const { grpc, broker, place } = this.#options;
    if (!grpc || !this.#isGrpc) return filter ? new FilteredBody(body, filter) : body;
    const { scheme, host, port } = place;
    const messages = () =>
      filter?.searching
        ? this.#messages ??= broker.messages({ scheme, host, port, direction: "response", keepsLength: true })
        : undefined;
    return new GrpcBody(body, grpc.responses, messages);
  }

  /** Relays the messages of a WebSocket. */
  async #relayUpgraded(
    upstream: BufferedConnection,
    headers: Header[],
    deflate: Deflate | undefined,
  ): Promise<void> {
    const { outlet, socket, passage } = this.#options;
    if (await this.#isBlocked(this.#describe(101, headers, 0, NO_HTTP_BODY))) return;
    if (!outlet.upgrade || !socket) throw new MessageFault("an unexpected protocol switch");
    const moved = relayedBytes(passage);
    let error: string | undefined;
    try {
      const guest = await outlet.upgrade(socket.fields(headers), "websocket");
      error = await socket.relay(guest, upstream, moved, deflate);
    } catch (cause) {
      error = errorText(cause);
    } finally {
      const body = { ...NO_HTTP_BODY, size: moved.received, truncated: moved.received > 0 };
      this.#finish({
        response: { ...this.#describe(101, headers, moved.received, body), ...await socket.messages() },
        ...(error !== undefined && { error }),
      });
    }
  }

  /** Reviews a response by its head; a blocked one is answered and finished. */
  async #isBlocked(response: HttpResponse): Promise<boolean> {
    const { passage, outlet } = this.#options;
    const block = passage.review(response);
    if (!block) return false;
    this.#finish({ response, error: BLOCKED });
    await outlet.sendBlock(block);
    return true;
  }

  /** Fields for the client, with refs in place of secrets that the upstream repeats. */
  #captureFields(headers: Header[]): Header[] {
    const { broker, place } = this.#options;
    if (headers.length === 0) return headers;
    const captured = broker.answer(place.host, headers);
    this.#options.record(captured.substitutions);
    return captured.headers;
  }

  /**
   * Searches the body for secrets that were sent to its host.
   * @throws {MessageFault} as `#requireReadable`
   */
  #search(status: number): void {
    const { broker, place } = this.#options;
    this.#filter = broker.bodies({ ...place, status });
    this.#requireReadable();
  }

  /**
   * @throws {MessageFault} the body has to be searched, now or since a secret was
   * sent to its host, and cannot be
   */
  #requireReadable(): void {
    const isHidden = this.#isHidden || this.#isGrpc && this.#options.grpc!.responses.isCompressed;
    if (isHidden && this.#filter?.searching) {
      throw new MessageFault("a content encoding or a range that hides credentials");
    }
  }

  #describe(
    status: number,
    headers: readonly Header[],
    bytes: number,
    body: HttpBody,
    trailers: readonly Header[] = [],
  ): HttpResponse {
    const grpc = this.#options.grpc?.result([...headers, ...trailers]);
    return {
      ...this.#describeFields(status, this.#options.broker.scrubFields(headers), bytes, body),
      ...(grpc && { grpc }),
    };
  }

  /** @param fields without secrets */
  #describeFields(status: number, fields: readonly Header[], bytes: number, body: HttpBody): HttpResponse {
    const { address } = this.#options;
    const content_type = headerValue(fields, "content-type");
    const typed = content_type === undefined || body.content_type !== undefined
      ? body
      : { ...body, content_type };
    return {
      // A copy from the cache is of no connection.
      ...(this.#cacheDigest === undefined && address !== undefined && { address }),
      body: typed,
      bytes,
      ...(this.#cacheDigest !== undefined && { cache_digest: this.#cacheDigest }),
      headers: eventHeaders(fields),
      status,
    };
  }

  /** @param fields the headers without secrets */
  #kindOf(headers: readonly Header[], fields = this.#options.broker.scrubFields(headers)): BodyKind {
    const content_type = headerValue(fields, "content-type");
    const content_encoding = encodingOf(headers);
    return {
      ...(content_type !== undefined && { content_type }),
      ...(content_encoding !== undefined && { content_encoding }),
      scrub: (text, isCut) => this.#options.broker.scrub(text, isCut),
    };
  }

  #finish(outcome: Outcome, end?: TapEnd): void {
    const { tap, passage } = this.#options;
    tap?.end(outcome.error, end);
    passage.finish(outcome);
  }
}

/** Least status of an error, which may repeat signed fields. */
const ERROR_STATUS = 400;
const BLOCKED = "blocked by policy";

/**
 * True for statuses of a part of a response, and of its difference to another (RFC 9110 §15.3.7, RFC 3229).
 */
function isPartial(status: number): boolean {
  return status === 206 || status === 226;
}

/** True for statuses of a response without a body (RFC 9110 §6.4.1). */
function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** Reason of an exchange's early end, for the ledger. */
export function errorText(cause: unknown): string {
  if (cause instanceof ClientLost) return `the client ${cause.why}`;
  if (cause instanceof ConnectionLost) return `the upstream ${cause.why}`;
  if (cause instanceof MessageFault) {
    return `the upstream's response cannot be read safely: ${cause.reason}`;
  }
  return cause instanceof SbxError ? cause.message : "an internal error of sbx";
}
