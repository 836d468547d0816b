/** What an upstream answered, on its way to whoever asked: looked at, recorded, and never longer held than needed. */
import { SbxError } from "../../base/error/mod.ts";
import type { CredentialSubstitution, Event, HttpBody, HttpEvent } from "../../event/mod.ts";
import type { Decision, Gate, Outcome } from "../../policy/mod.ts";
import { type BodySource, readWhole } from "../message/body.ts";
import type { BodyFilter, Broker } from "../port/broker.ts";
import { type BodyKind, Capture, recordBody } from "../message/capture.ts";
import type { Connection } from "../connection.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../fault.ts";
import { NOTHING } from "../message/gathered.ts";
import { eventHeaders, type Header, headerValue, mayTrail } from "../message/header.ts";
import { WHOLE_MAX } from "../limit.ts";
import type { ModelTap } from "./model_tap.ts";
import { encodingOf, filtered, FilteredBody } from "./outgoing.ts";
import type { Outlet } from "./outlet.ts";
import type { Answered } from "../upstream/pool.ts";
import { relay, type Relayed } from "../relay.ts";

type HttpResponse = NonNullable<HttpEvent["response"]>;

/** What an answer belongs to. */
export interface AnsweringOptions {
  gate: Gate;
  broker: Broker;
  outlet: Outlet;
  event: Event;
  host: string;
  /** when the request was let go, by `performance.now()` */
  decided: number;
  /** the protocol that the client asked for */
  upgrade?: string;
  /** milliseconds for a relayed connection */
  relayMs: number;
  /** secrets went out with the request: they must not come back */
  secret: boolean;
  filter?: BodyFilter;
  tap?: ModelTap;
  /** puts what the broker did into the ledger */
  record(substitutions: Iterable<CredentialSubstitution>): void;
  /** puts how it ended into the ledger; not called when {@linkcode Answering.answer} throws */
  finish(outcome: Outcome): void;
}

export class Answering {
  readonly #options: AnsweringOptions;

  constructor(options: AnsweringOptions) {
    this.#options = options;
  }

  /**
   * Passes an answer on. Once the client has had a part of it, what goes wrong cuts it off and is recorded; before
   * that, it is thrown.
   *
   * @throws {ConnectionLost | MessageFault | SbxError} nothing has been passed on
   * @throws {ClientLost}
   */
  async answer({ answer, exchange }: Answered): Promise<void> {
    const { tap, filter } = this.#options;
    const first_byte_ms = performance.now() - this.#options.decided;
    try {
      const headers = this.#captured(answer.headers);
      if (answer.upgraded) return await this.#relayed(answer.upgraded, headers, first_byte_ms);
      if (filter && encodingOf(headers) !== undefined) {
        throw new MessageFault("it encodes an answer in which credentials have to be looked for");
      }
      tap?.head(answer.status, headers);
      const { length } = answer.body;
      if (length !== undefined && length <= WHOLE_MAX) {
        const body = length === 0 ? NOTHING : answer.body.here?.() ?? await readWhole(answer.body, length);
        try {
          await this.#whole(answer.status, headers, body, answer.declared, first_byte_ms);
        } finally {
          // The body may be where the connection's next answer will be.
          exchange.done();
        }
      } else if (await this.#streamed(answer.status, headers, answer.body, first_byte_ms)) exchange.done();
    } finally {
      // Does nothing to an exchange that is done.
      exchange.abort();
    }
  }

  /** A short answer is here before the client has its first byte: rules see its text, and can still stop it. */
  async #whole(
    status: number,
    headers: Header[],
    bytes: Uint8Array,
    declared: string | undefined,
    first_byte_ms: number,
  ): Promise<void> {
    const { outlet, tap, filter } = this.#options;
    const body = filter ? filtered(bytes, filter) : bytes;
    if (filter) this.#options.record(filter.substitutions);
    tap?.chunk(body);
    let recorded: HttpBody | Promise<HttpBody> = EMPTY;
    if (body.length > 0) recorded = recordBody(body, body.length, this.#kind(headers));
    if (recorded instanceof Promise) recorded = await recorded;
    const response = this.#response(status, headers, body.length, recorded);
    const decision = this.#reviewed(response);
    const outcome: Outcome = { response, first_byte_ms };
    try {
      if (decision) {
        outcome.error = "blocked by policy";
        await outlet.blocked(decision);
      } else await outlet.whole(status, headers, body, body.length === 0 ? declared : undefined);
    } catch (error) {
      outcome.error = errorText(error);
      throw error;
    } finally {
      this.#end(outcome);
    }
  }

  /** Passes a long answer on as it comes. @returns whether all of it came */
  async #streamed(
    status: number,
    headers: Header[],
    body: BodySource,
    first_byte_ms: number,
  ): Promise<boolean> {
    const { outlet, tap, filter } = this.#options;
    const decision = this.#reviewed(this.#response(status, headers, 0, { ...EMPTY, truncated: true }));
    if (decision) {
      this.#end({ response: this.#options.event.http!.response, first_byte_ms, error: "blocked by policy" });
      await outlet.blocked(decision);
      return false;
    }
    const source = filter ? new FilteredBody(body, filter, false) : body;
    const capture = new Capture();
    let error: string | undefined;
    try {
      outlet.begin(status, headers, source.length);
      if (!source.ready) await outlet.flush();
      for (let piece = await source.read(); piece !== null; piece = await source.read()) {
        capture.add(piece);
        tap?.chunk(piece);
        await outlet.write(piece);
      }
      await outlet.end(source.trailers.filter(mayTrail));
      return true;
    } catch (cause) {
      error = errorText(cause);
      outlet.cut();
      if (cause instanceof ClientLost) throw cause;
      return false;
    } finally {
      if (filter) this.#options.record(filter.substitutions);
      const recorded = await capture.record(this.#kind(headers), error === undefined);
      const response = this.#response(status, headers, capture.size, recorded);
      this.#end({ response, first_byte_ms, ...(error !== undefined && { error }) });
    }
  }

  /** Another protocol than HTTP from here on: bytes are counted, and not looked into. */
  async #relayed(upstream: Connection, headers: Header[], first_byte_ms: number): Promise<void> {
    const { outlet, upgrade, relayMs } = this.#options;
    const decision = this.#reviewed(this.#response(101, headers, 0, EMPTY));
    if (decision) {
      this.#end({ response: this.#options.event.http!.response, first_byte_ms, error: "blocked by policy" });
      return await outlet.blocked(decision);
    }
    if (!outlet.upgrade || upgrade === undefined) throw new MessageFault("it changes to another protocol");
    const moved: Relayed = { sent: 0, received: 0 };
    let error: string | undefined;
    try {
      await relay(await outlet.upgrade(headers, upgrade), upstream, relayMs, moved);
    } catch (cause) {
      error = errorText(cause);
    } finally {
      const body = { state: "missing" as const, size: moved.received, truncated: moved.received > 0 };
      this.#end({
        response: this.#response(101, headers, moved.received, body),
        first_byte_ms,
        ...(error !== undefined && { error }),
      });
    }
  }

  /** The record of a decision that keeps an answer from the client. */
  #reviewed(response: HttpResponse): Decision | undefined {
    const { gate, event } = this.#options;
    event.http!.response = response;
    const decision = gate.review(event);
    return decision.decision === "block" ? decision : undefined;
  }

  /** Header fields for the client: what went out as a secret comes back as a ref. */
  #captured(headers: Header[]): Header[] {
    const { secret, broker, host } = this.#options;
    if (!secret) return headers;
    const captured = broker.capture(host, headers);
    this.#options.record(captured.substitutions);
    return captured.headers;
  }

  #response(status: number, headers: readonly Header[], bytes: number, body: HttpBody): HttpResponse {
    const { broker } = this.#options;
    const shown = headers.map((
      [name, value],
    ): Header => [name, name === "location" ? broker.scrub(value) : value]);
    const content_type = headerValue(headers, "content-type");
    const typed = content_type === undefined || body.content_type !== undefined
      ? body
      : { ...body, content_type };
    return { body: typed, bytes, headers: eventHeaders(shown), status };
  }

  #kind(headers: readonly Header[]): BodyKind {
    const content_type = headerValue(headers, "content-type");
    const content_encoding = encodingOf(headers);
    return {
      ...(content_type !== undefined && { content_type }),
      ...(content_encoding !== undefined && { content_encoding }),
      scrub: (text) => this.#options.broker.scrub(text),
    };
  }

  #end(outcome: Outcome): void {
    const { tap, decided, finish } = this.#options;
    tap?.end(outcome.error);
    finish({ ...outcome, duration_ms: performance.now() - decided });
  }
}

const EMPTY: HttpBody = { state: "missing", truncated: false };

/** What broke an answer off, as the ledger says it. */
export function errorText(cause: unknown): string {
  if (cause instanceof ClientLost) return `the client ${cause.why}`;
  if (cause instanceof ConnectionLost) return `the upstream ${cause.why}`;
  if (cause instanceof MessageFault) return `the upstream's answer cannot be read safely: ${cause.reason}`;
  return cause instanceof SbxError ? cause.message : "it failed inside sbx";
}
