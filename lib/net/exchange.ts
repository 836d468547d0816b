/** One request from its bytes to its answer: event → decision → effect → outcome (spec.md, "Events"). */
import { type ErrorBody, errorBody, SbxError, statusOf } from "../error/mod.ts";
import type { Event } from "../event/mod.ts";
import type { Decision, Gate } from "../policy/mod.ts";
import { Answering } from "./answering.ts";
import { type BodySource, readBeginning, WholeBody } from "./body.ts";
import { authorityText } from "./authority.ts";
import { type Broker, CredentialDenied, type Destination } from "./broker.ts";
import { recordBody } from "./capture.ts";
import { type Described, httpDraft, NO_HTTP_BODY, type Requester, substitutionDraft } from "./draft.ts";
import { decoded } from "./encoding.ts";
import { ConnectionLost, MessageFault } from "./fault.ts";
import { type Header, headerValue } from "./header.ts";
import { CAPTURE_MAX, HELD_MAX, HELD_TOTAL_MAX } from "./limit.ts";
import { ModelTap } from "./model_tap.ts";
import type { Models } from "./model.ts";
import { encodingOf, type Head, type HeldBody, outgoingBody, rewrittenBody, rewrittenHead } from "./outgoing.ts";
import type { Outlet } from "./outlet.ts";
import { Flight, type Pool } from "./pool.ts";
import type { OutgoingRequest, Place, Target } from "./upstream.ts";

/** A request as it was read, its names checked. */
export interface Incoming extends Destination {
  by: Requester;
  method: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: Header[];
  body: BodySource;
  /** bytes of the head */
  headBytes: number;
  /** where the guest connected to; the host's own requests have none until a name is looked up */
  address?: string;
  /** the protocol that the connection is to change to */
  upgrade?: string;
  /** the client reads trailers */
  trailers: boolean;
}

/** What exchanges of one VM share. */
export interface ExchangeContext {
  gate: Gate;
  broker: Broker;
  models?: Models;
  pool: Pool;
  /** where a connection is really made to */
  locate(host: string, port: number, address: string | undefined, actor: "vm" | "host"): Promise<Target>;
  /** milliseconds for a relayed connection */
  relayMs: number;
  /** bytes of requests that are held */
  held: number;
}

/** A request that could not be read to its end: whoever sent it broke it. */
export class RequestBroken extends Error {
  override name = "RequestBroken";

  constructor(override readonly cause: ConnectionLost | MessageFault) {
    super("the request was not completed", { cause });
  }
}

/** Handles one request. Throws only what writing the answer throws: everything else becomes one. */
export class Exchange {
  readonly #context: ExchangeContext;
  readonly #incoming: Incoming;
  readonly #outlet: Outlet;
  readonly #flight = new Flight();
  #event?: Event;
  #tap?: ModelTap;
  #decided = 0;
  #held = 0;

  constructor(context: ExchangeContext, incoming: Incoming, outlet: Outlet) {
    this.#context = context;
    this.#incoming = incoming;
    this.#outlet = outlet;
  }

  async run(): Promise<void> {
    try {
      await this.#run();
    } catch (error) {
      await this.#failed(error);
    } finally {
      this.#context.held -= this.#held;
      this.#outlet.unwatch();
    }
  }

  async #run(): Promise<void> {
    const { gate, broker, models } = this.#context;
    const incoming = this.#incoming;
    const { by, scheme, host, port } = incoming;
    const captured = broker.capture(host, [[":path", incoming.target], ...incoming.headers]);
    const head: Head = {
      method: incoming.method,
      target: captured.headers[0][1],
      headers: captured.headers.slice(1),
    };
    const call = models?.match(modelRequest(incoming, head));
    const held = await this.#hold(call?.bodyMax ?? 0);
    const shown = await this.#described(head, held);
    for (const each of captured.substitutions) gate.observe(substitutionDraft(by, each));
    const { allowed, event, decision } = await gate.decide(httpDraft(by, shown), this.#outlet.signal);
    if (!allowed) return await this.#blocked(decision);
    this.#event = event;
    this.#decided = performance.now();
    this.#outlet.watch(() => this.#flight.abort());
    const changed = decision.rewrites.length > 0;
    const draft = httpDraft(by, shown);
    const wanted = changed ? rewrittenHead(head, draft.http!.request, event.http!.request) : head;
    let bytes = changed ? rewrittenBody(held, { ...event, ...draft } as Event, event) : undefined;
    if (bytes) wanted.headers = without(wanted.headers, "content-encoding");
    if (call) {
      const encoding = encodingOf(head.headers);
      const plain = bytes ?? (encoding ? await decoded(held.first, encoding, HELD_MAX) : held.first);
      this.#tap = new ModelTap(gate, call);
      const said = await this.#tap.decide(plain ?? held.first, held.complete, broker, this.#outlet.signal);
      if (said && "blocked" in said) return await this.#blocked(said.blocked);
      if (said && "body" in said) {
        bytes = said.body;
        wanted.headers = without(wanted.headers, "content-encoding");
      }
      if (said) wanted.headers = [...without(wanted.headers, "accept-encoding"), ["accept-encoding", "identity"]];
    }
    const body = bytes ? { first: bytes, complete: true, rest: new WholeBody(new Uint8Array()) } : held;
    const to = { scheme: event.http!.request.scheme, host: event.http!.request.host, port: event.http!.request.port };
    const moved = to.host !== host || to.port !== port || to.scheme !== scheme;
    await this.#send(to, moved ? undefined : incoming.address, wanted, body);
  }

  /** Sends what was decided on, and gives the answer to whoever waits for it. */
  async #send(to: Destination, address: string | undefined, head: Head, held: HeldBody): Promise<void> {
    const { broker, pool, locate } = this.#context;
    const { by, upgrade, trailers } = this.#incoming;
    const injected = broker.inject(to, [[":path", head.target], ...head.headers]);
    this.#record(injected.substitutions);
    const path = head.target.split("?", 1)[0];
    const content_type = headerValue(head.headers, "content-type");
    const place = { ...to, path, ...(content_type !== undefined && { content_type }) };
    const encoded = encodingOf(head.headers) !== undefined;
    const filter = held.complete && held.first.length === 0 || encoded
      ? undefined
      : broker.bodies({ ...place, direction: "request" });
    const answerFilter = broker.bodies({ ...place, direction: "response" });
    let headers = injected.headers.slice(1);
    if (answerFilter) headers = [...without(headers, "accept-encoding"), ["accept-encoding", "identity"]];
    const body = outgoingBody(held, filter);
    if (held.complete && filter) this.#record(filter.substitutions);
    const target = await locate(to.host, to.port, address, by.actor);
    const request: OutgoingRequest = {
      method: head.method,
      authority: authorityText(to.scheme, to.host, to.port),
      target: injected.headers[0][1],
      headers,
      body,
      trailers,
      ...(upgrade !== undefined && { upgrade }),
    };
    const upstream: Place = { ...to, target };
    const released = [injected.released, filter?.released, answerFilter?.released].filter((each) => each !== undefined);
    const revoke = () => this.#flight.abort();
    for (const each of released) each.addEventListener("abort", revoke);
    try {
      if (released.some(({ aborted }) => aborted)) throw new ConnectionLost("was closed");
      const answered = await pool.send(upstream, request, this.#flight);
      await new Answering(this.#context, {
        event: this.#event!,
        by,
        method: head.method,
        host: to.host,
        decided: this.#decided,
        outlet: this.#outlet,
        secrets: injected.substitutions.length > 0,
        record: (substitutions) => this.#record(substitutions),
        ...(this.#tap && { tap: this.#tap }),
        ...(answerFilter && { filter: answerFilter }),
      }).answer(answered);
      if (!held.complete && filter) this.#record(filter.substitutions);
    } catch (error) {
      if (released.some(({ aborted }) => aborted)) throw revoked(error);
      throw error;
    } finally {
      for (const each of released) each.removeEventListener("abort", revoke);
    }
  }

  /** Reads as much of the body as the decision is to be made on. */
  async #hold(wanted: number): Promise<HeldBody> {
    const { body } = this.#incoming;
    if (body.done) return { first: new Uint8Array(), complete: true, rest: body };
    const whole = body.length !== undefined && body.length <= HELD_MAX ? body.length : 0;
    const most = Math.min(Math.max(CAPTURE_MAX + 1, wanted, whole), HELD_MAX);
    const fits = this.#context.held + most <= HELD_TOTAL_MAX;
    const reserved = Math.min(fits ? most : CAPTURE_MAX + 1, body.length ?? Infinity);
    this.#context.held += this.#held = reserved;
    const rest = new Guarded(body);
    const first = await readBeginning(rest, reserved);
    return { first, complete: body.done, rest };
  }

  async #described(head: Head, { first, complete, rest }: HeldBody): Promise<Described> {
    const { scheme, host, port, headBytes } = this.#incoming;
    const size = rest.length ?? first.length;
    const kind = {
      ...kindOf(head.headers),
      scrub: (text: string) => this.#context.broker.scrub(text),
    };
    return {
      ...head,
      scheme,
      host,
      port,
      headers: [["host", authorityText(scheme, host, port)], ...head.headers],
      bytes: headBytes + size,
      body: first.length === 0 && complete ? NO_HTTP_BODY : await recordBody(first, size, kind, complete),
    };
  }

  #record(substitutions: Iterable<Parameters<typeof substitutionDraft>[1]>): void {
    const { gate } = this.#context;
    const event_id = this.#event?.common.event_id;
    for (const each of substitutions) {
      const draft = substitutionDraft(this.#incoming.by, each, event_id);
      if (each.outcome !== "denied") gate.observe(draft);
      else gate.refuse(draft, { id: "guard-credential", reason: each.reason ?? "the credential may not be used there" });
    }
  }

  async #blocked(decision: Decision): Promise<void> {
    if (this.#event) this.#finish({ error: "blocked by policy" });
    await this.#outlet.whole(403, JSON_TYPE, jsonBytes(decision));
  }

  async #failed(cause: unknown): Promise<void> {
    if (cause instanceof CredentialDenied) this.#record(cause.substitutions);
    if (cause instanceof RequestBroken) {
      this.#finish({ error: `the client ${why(cause.cause)}` });
      throw cause;
    }
    const error = asAnswer(cause, this.#incoming);
    this.#finish({ error: error.message });
    this.#tap?.end(error.message);
    await this.#outlet.whole(statusOf(error.code), JSON_TYPE, jsonBytes(errorBody(error)));
  }

  #finish(outcome: { error: string }): void {
    if (!this.#event) return;
    const duration_ms = performance.now() - this.#decided;
    this.#context.gate.finish(this.#event, { ...outcome, duration_ms });
    this.#event = undefined;
  }
}
