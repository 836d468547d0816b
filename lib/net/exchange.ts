/** One request from its bytes to its answer: event → decision → effect → outcome (spec.md, "Events"). */
import { asSbxError, SbxError } from "../error/mod.ts";
import type { CredentialSubstitution, Event } from "../event/mod.ts";
import type { Gate, Outcome } from "../policy/mod.ts";
import { Answering, errorText } from "./answering.ts";
import { authorityText } from "./authority.ts";
import { type BodySource, NO_BODY, readBeginning } from "./body.ts";
import { type BodyFilter, type Broker, CredentialDenied, type Destination } from "./broker.ts";
import { recordBody } from "./capture.ts";
import { ClientBody } from "./client_body.ts";
import { nameOf } from "./connect.ts";
import { type Described, httpDraft, NO_HTTP_BODY, type Requester, substitutionDraft } from "./draft.ts";
import { decoded } from "./encoding.ts";
import { ClientLost, ConnectionLost, MessageFault } from "./fault.ts";
import { type Header, headerValue } from "./header.ts";
import { CAPTURE_MAX, HELD_MAX, HELD_TOTAL_MAX } from "./limit.ts";
import type { ModelCall, ModelRequest, Models } from "./model.ts";
import { ModelTap } from "./model_tap.ts";
import {
  encodingOf,
  type Head,
  type HeldBody,
  outgoingBody,
  rewrittenBody,
  rewrittenHead,
} from "./outgoing.ts";
import type { Outlet } from "./outlet.ts";
import { Flight, type Pool } from "./pool.ts";
import type { Place, Target } from "./upstream.ts";

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

/** Handles one request: whatever becomes of it, the client gets an answer and the ledger hears of it. */
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

  /** @throws {ClientLost} when the request does not come to its end, or nobody takes the answer */
  async run(): Promise<void> {
    try {
      await this.#decide();
    } catch (error) {
      await this.#failed(error);
    } finally {
      this.#context.held -= this.#held;
    }
  }

  async #decide(): Promise<void> {
    const { gate, broker, models } = this.#context;
    const { by, host, method, target, headers } = this.#incoming;
    const captured = broker.capture(host, [[":path", target], ...headers]);
    const head: Head = { method, target: captured.headers[0][1], headers: captured.headers.slice(1) };
    const call = models?.match(modelRequest(this.#incoming, head));
    const held = await this.#hold(call?.bodyMax ?? 0);
    const draft = httpDraft(by, await this.#described(head, held));
    this.#record(captured.substitutions);
    const { allowed, event, decision } = await gate.decide(draft, this.#outlet.signal);
    if (!allowed) return await this.#outlet.blocked(decision);
    this.#event = event;
    this.#decided = performance.now();
    const changed = decision.rewrites.length > 0;
    let wanted = changed ? rewrittenHead(head, draft.http!.request, event.http!.request) : head;
    let body = changed ? rewrittenBody(held, draft.http!.request.body, event.http!.request.body) : undefined;
    if (call) {
      const said = await this.#model(call, head, held, body);
      if (said && !said.allowed) {
        this.#finish({ error: "its model call was blocked by policy" });
        return await this.#outlet.blocked(said.decision);
      }
      body = said?.body ?? body;
      if (said) wanted = { ...wanted, headers: asPlain(wanted.headers) };
    }
    if (body) wanted = { ...wanted, headers: without(wanted.headers, "content-encoding") };
    await this.#send(event, wanted, body ? { first: body, complete: true, rest: NO_BODY } : held);
  }

  async #model(call: ModelCall, head: Head, held: HeldBody, changed: Uint8Array | undefined) {
    const { gate, broker } = this.#context;
    const encoding = changed ? undefined : encodingOf(head.headers);
    const body = changed ?? (encoding ? await decoded(held.first, encoding, HELD_MAX) : held.first);
    this.#tap = new ModelTap(gate, call);
    const scrub = (text: string) => broker.scrub(text);
    return await this.#tap.decide(
      this.#incoming.by,
      body ?? held.first,
      held.complete,
      scrub,
      this.#outlet.signal,
    );
  }

  /** Sends what was decided on, and passes the answer on. */
  async #send(event: Event, head: Head, held: HeldBody): Promise<void> {
    const { gate, broker, pool, locate, relayMs } = this.#context;
    const { by, upgrade, trailers, address } = this.#incoming;
    const { scheme, host, port } = event.http!.request;
    const to: Destination = { scheme, host, port };
    const injected = broker.inject(to, [[":path", head.target], ...head.headers]);
    this.#record(injected.substitutions);
    const filters = this.#filters(to, head, held);
    const body = outgoingBody(held, filters.request);
    if (held.complete && filters.request) this.#record(filters.request.substitutions);
    const headers = injected.headers.slice(1);
    const moved = host !== this.#incoming.host || port !== this.#incoming.port;
    const place: Place = { ...to, target: await locate(host, port, moved ? undefined : address, by.actor) };
    const revoked = [injected.released, filters.request?.released, filters.answer?.released];
    const release = revocation(revoked, () => this.#flight.abort());
    try {
      const answered = await pool.send(place, {
        method: head.method,
        authority: authorityText(scheme, host, port),
        target: injected.headers[0][1],
        headers: filters.answer ? asPlain(headers) : headers,
        body,
        trailers,
        ...(upgrade !== undefined && { upgrade }),
      }, this.#flight);
      await new Answering({
        gate,
        broker,
        outlet: this.#outlet,
        event,
        host,
        decided: this.#decided,
        relayMs,
        secret: injected.substitutions.length > 0,
        record: (substitutions) => this.#record(substitutions),
        finish: (outcome) => this.#finish(outcome),
        ...(upgrade !== undefined && { upgrade }),
        ...(this.#tap && { tap: this.#tap }),
        ...(filters.answer && { filter: filters.answer }),
      }).answer(answered);
    } catch (error) {
      throw release.revoked
        ? withdrawn(error)
        : error instanceof ClientLost
        ? error
        : upstreamError(error, place);
    } finally {
      release.end();
      if (!held.complete && filters.request) this.#record(filters.request.substitutions);
    }
  }

  #filters(to: Destination, head: Head, held: HeldBody): { request?: BodyFilter; answer?: BodyFilter } {
    const { broker } = this.#context;
    const content_type = headerValue(head.headers, "content-type");
    const place = {
      ...to,
      path: head.target.split("?", 1)[0],
      ...(content_type !== undefined && { content_type }),
    };
    const answer = broker.bodies({ ...place, direction: "response" });
    // What is encoded hides its secrets from us and its refs from the upstream.
    const plain = (held.first.length > 0 || !held.complete) && encodingOf(head.headers) === undefined;
    const request = plain ? broker.bodies({ ...place, direction: "request" }) : undefined;
    return { ...(request && { request }), ...(answer && { answer }) };
  }

  /** Reads as much of the body as the decision is to be made on. */
  async #hold(wanted: number): Promise<HeldBody> {
    const { body } = this.#incoming;
    if (body.done) {
      this.#watch();
      return { first: new Uint8Array(), complete: true, rest: body };
    }
    const whole = body.length !== undefined && body.length <= HELD_MAX ? body.length : 0;
    const most = Math.min(Math.max(CAPTURE_MAX + 1, wanted, whole), HELD_MAX);
    const fits = this.#context.held + most <= HELD_TOTAL_MAX;
    const reserved = Math.min(fits ? most : CAPTURE_MAX + 1, body.length ?? Infinity);
    this.#context.held += this.#held = reserved;
    const rest = new ClientBody(body, () => this.#watch());
    const first = await readBeginning(rest, reserved);
    if (body.done) this.#watch();
    return { first, complete: body.done, rest };
  }

  async #described(head: Head, { first, complete, rest }: HeldBody): Promise<Described> {
    const { scheme, host, port, headBytes } = this.#incoming;
    const size = rest.length ?? first.length;
    const content_type = headerValue(head.headers, "content-type");
    const content_encoding = encodingOf(head.headers);
    const kind = {
      ...(content_type !== undefined && { content_type }),
      ...(content_encoding !== undefined && { content_encoding }),
      scrub: (text: string) => this.#context.broker.scrub(text),
    };
    return {
      ...head,
      scheme,
      host,
      port,
      headers: [["host", authorityText(scheme, host, port)], ...head.headers],
      bytes: headBytes + size,
      body: first.length === 0 ? NO_HTTP_BODY : await recordBody(first, size, kind, complete),
    };
  }

  /** From here on nothing is read from the client: its going away has to be noticed all the same. */
  #watch(): void {
    this.#outlet.watch(() => this.#flight.abort());
  }

  #record(substitutions: Iterable<CredentialSubstitution>): void {
    const { gate } = this.#context;
    const event_id = this.#event?.common.event_id;
    for (const each of substitutions) {
      const draft = substitutionDraft(this.#incoming.by, each, event_id);
      if (each.outcome !== "denied") gate.observe(draft);
      else gate.refuse(draft, { id: "guard-credential", reason: each.reason ?? "it may not be used there" });
    }
  }

  async #failed(cause: unknown): Promise<void> {
    if (cause instanceof CredentialDenied) this.#record(cause.substitutions);
    this.#finish({ error: errorText(cause) });
    this.#tap?.end(errorText(cause));
    if (cause instanceof ClientLost) throw cause;
    await this.#outlet.failed(asSbxError(cause, "sending the request"));
  }

  #finish(outcome: Outcome): void {
    if (!this.#event) return;
    this.#context.gate.finish(this.#event, { duration_ms: performance.now() - this.#decided, ...outcome });
    this.#event = undefined;
  }
}

/** Asks for an answer whose bytes are what they say. */
function asPlain(headers: Header[]): Header[] {
  return [...without(headers, "accept-encoding"), ["accept-encoding", "identity"]];
}

function without(headers: Header[], name: string): Header[] {
  return headers.filter((header) => header[0] !== name);
}

function modelRequest({ scheme, host, port }: Incoming, { method, target, headers }: Head): ModelRequest {
  const [path, ...query] = target.split("?");
  return { method, scheme, host, port, path, query: query.join("?"), headers };
}

/** Calls back when a credential is revoked while it is in use. */
class Revocation {
  readonly #signals: AbortSignal[];

  /** @throws {SbxError} when one is revoked already */
  constructor(signals: (AbortSignal | undefined)[], readonly callback: () => void) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    if (this.happened) throw withdrawn();
    for (const signal of this.#signals) signal.addEventListener("abort", callback);
  }

  get happened(): boolean {
    return this.#signals.some(({ aborted }) => aborted);
  }

  end(): void {
    for (const signal of this.#signals) signal.removeEventListener("abort", this.callback);
  }
}

function withdrawn(cause?: unknown): SbxError {
  return new SbxError("credential.denied", "the request was broken off: its credential has been revoked", {
    cause,
    hint: "sbx credentials add gives the VM another one",
  });
}

/** What went wrong with an upstream, as the client is told. */
function upstreamError(cause: unknown, place: Place): unknown {
  const name = nameOf(place);
  if (cause instanceof MessageFault) {
    return new SbxError("upstream.failed", `the answer of ${name} cannot be read safely: ${cause.reason}`, {
      cause,
    });
  }
  if (!(cause instanceof ConnectionLost)) return cause;
  const code = cause.timedOut ? "upstream.timeout" : "upstream.failed";
  return new SbxError(code, `${name} ${cause.why}`, { cause, hint: "the request may have been acted on" });
}
