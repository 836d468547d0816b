/** One request from its bytes to its answer: event → decision → effect → outcome (spec.md, "Events"). */
import { asSbxError } from "../../base/error/mod.ts";
import type { CredentialSubstitution, Event } from "../../event/mod.ts";
import type { Decision, Gate, Outcome } from "../../policy/mod.ts";
import { Answering, errorText } from "./answering.ts";
import { authorityText } from "./authority.ts";
import { NO_BODY } from "../message/body.ts";
import {
  type BodyFilter,
  type BodyPlace,
  type Broker,
  CredentialDenied,
  type Destination,
  type Injected,
} from "../port/broker.ts";
import { upstreamError } from "../upstream/connect.ts";
import { httpDraft, substitutionDraft } from "./draft.ts";
import { decoded } from "../message/encoding.ts";
import { ClientLost } from "../fault.ts";
import { type Header, headerValue } from "../message/header.ts";
import { described, type Held, heldRecord, Holding, nothingHeld } from "./holding.ts";
import type { Incoming } from "./incoming.ts";
import { HELD_MAX } from "../limit.ts";
import type { ModelCall, ModelRequest, Models } from "../port/model.ts";
import { ModelTap } from "./model_tap.ts";
import {
  encodingOf,
  filtered,
  type Head,
  type HeldBody,
  outgoingBody,
  rewrittenBody,
  rewrittenHead,
} from "./outgoing.ts";
import type { Outlet } from "./outlet.ts";
import { Flight, type Pool } from "../upstream/pool.ts";
import { Revocation, withdrawn } from "./revocation.ts";
import type { Place, Target } from "../upstream/upstream.ts";

/** What exchanges of one VM share. */
export interface ExchangeContext {
  gate: Gate;
  broker: Broker;
  models?: Models;
  pool: Pool;
  /** where a connection is really made to */
  locate(
    host: string,
    port: number,
    address: string | undefined,
    actor: "vm" | "host",
  ): Target | Promise<Target>;
  /** milliseconds for a relayed connection */
  relayMs: number;
  held: Held;
}

/** What looks through the bodies of one exchange. */
interface Filters {
  request?: BodyFilter;
  answer?: BodyFilter;
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
  #holding?: Holding;

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
      this.#holding?.release();
    }
  }

  async #decide(): Promise<void> {
    const { gate, broker, models } = this.#context;
    const { by, host, method, target, headers } = this.#incoming;
    const captured = broker.capture(host, [[":path", target], ...headers]);
    const head: Head = { method, target: captured.headers[0][1], headers: captured.headers.slice(1) };
    const call = models?.match(modelRequest(this.#incoming, head));
    const held = this.#incoming.body.done ? this.#bodiless() : await this.#hold(call?.bodyMax ?? 0);
    let body = heldRecord(head, held, (text) => broker.scrub(text));
    if (body instanceof Promise) body = await body;
    const draft = httpDraft(by, described(this.#incoming, head, held, body));
    this.#record(captured.substitutions);
    let verdict = gate.decide(draft, this.#outlet.signal);
    if (verdict instanceof Promise) verdict = await verdict;
    const { allowed, event, decision } = verdict;
    if (!allowed) return await this.#outlet.blocked(decision);
    this.#event = event;
    this.#decided = performance.now();
    const changed = decision.rewrites.length > 0;
    let wanted = changed ? rewrittenHead(head, draft.http!.request, event.http!.request) : head;
    let bytes = changed ? rewrittenBody(held, draft.http!.request.body, event.http!.request.body) : undefined;
    if (call) {
      const said = await this.#model(call, head, held, bytes);
      if (said && !said.allowed) {
        this.#finish({
          error: "its model call was blocked by policy",
          decision: ofEvent(said.decision, event),
        });
        return await this.#outlet.blocked(said.decision);
      }
      bytes = said?.body ?? bytes;
      if (said) wanted = { ...wanted, headers: asPlain(wanted.headers) };
    }
    if (!bytes && encodingOf(wanted.headers) !== undefined) bytes = await this.#bared(event, wanted, held);
    if (bytes) wanted = { ...wanted, headers: without(wanted.headers, "content-encoding") };
    await this.#send(event, wanted, bytes ? { first: bytes, complete: true, rest: NO_BODY } : held);
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
    const filters = this.#filters(event, head, held);
    const body = outgoingBody(held, filters.request);
    if (held.complete && filters.request) this.#record(filters.request.substitutions);
    const headers = injected.headers.slice(1);
    const moved = host !== this.#incoming.host || port !== this.#incoming.port;
    let target = locate(host, port, moved ? undefined : address, by.actor);
    if (target instanceof Promise) target = await target;
    const place: Place = { scheme, host, port, target };
    const revocation = this.#revocation(injected, filters);
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
        record: (substitutions) => void this.#record(substitutions),
        finish: (outcome) => this.#finish(outcome),
        ...(upgrade !== undefined && { upgrade }),
        ...(this.#tap && { tap: this.#tap }),
        ...(filters.answer && { filter: filters.answer }),
      }).answer(answered);
    } catch (error) {
      if (revocation?.happened) throw withdrawn(error);
      throw error instanceof ClientLost ? error : upstreamError(error, place);
    } finally {
      revocation?.end();
      if (!held.complete && filters.request) this.#record(filters.request.substitutions);
    }
  }

  /**
   * A body without its encoding, when that hides something that may not go out as it is. One that is too long to be
   * held goes out as it came (docs/credentials.md, "Limits").
   *
   * @throws {CredentialDenied}
   */
  async #bared(event: Event, head: Head, { first, complete }: HeldBody): Promise<Uint8Array | undefined> {
    if (!complete || first.length === 0) return undefined;
    const plain = await decoded(first, encodingOf(head.headers)!, HELD_MAX + 1);
    if (!plain || plain.length > HELD_MAX) return undefined;
    const filter = this.#context.broker.bodies(bodyPlace(event, head, "request"));
    if (!filter) return undefined;
    filtered(plain, filter);
    return filter.substitutions.length > 0 ? plain : undefined;
  }

  /** Most requests use no credential. */
  #revocation(injected: Injected, { request, answer }: Filters): Revocation | undefined {
    const signals = [injected.released, request?.released, answer?.released];
    if (signals.every((signal) => signal === undefined)) return undefined;
    return new Revocation(signals, () => this.#flight.abort());
  }

  #filters(event: Event, head: Head, held: HeldBody): Filters {
    const { broker } = this.#context;
    const answer = broker.bodies(bodyPlace(event, head, "response"));
    // What is still encoded here hides its secrets from us and its refs from the upstream.
    const plain = (held.first.length > 0 || !held.complete) && encodingOf(head.headers) === undefined;
    const request = plain ? broker.bodies(bodyPlace(event, head, "request")) : undefined;
    return { ...(request && { request }), ...(answer && { answer }) };
  }

  #bodiless(): HeldBody {
    this.#watch();
    return nothingHeld(this.#incoming);
  }

  #hold(wanted: number): Promise<HeldBody> {
    this.#holding = new Holding(this.#context.held);
    return this.#holding.read(this.#incoming, wanted, () => this.#watch());
  }

  /** From here on nothing is read from the client: its going away has to be noticed all the same. */
  #watch(): void {
    this.#outlet.watch(() => this.#flight.abort());
  }

  /** @returns what refused the last one that was */
  #record(substitutions: Iterable<CredentialSubstitution>): Decision | undefined {
    let refused: Decision | undefined;
    const { gate } = this.#context;
    const event_id = this.#event?.common.event_id;
    for (const each of substitutions) {
      const draft = substitutionDraft(this.#incoming.by, each, event_id);
      if (each.outcome !== "denied") gate.observe(draft);
      else {
        const reason = each.reason ?? "it may not be used there";
        refused = gate.refuse(draft, { id: "guard-credential", reason }).decision;
      }
    }
    return refused;
  }

  async #failed(cause: unknown): Promise<void> {
    const refused = cause instanceof CredentialDenied ? this.#record(cause.substitutions) : undefined;
    const decision = refused && this.#event && ofEvent(refused, this.#event);
    this.#finish({ error: errorText(cause), ...(decision && { decision }) });
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

/** A decision on something that belongs to an event, as what was decided on the event. */
function ofEvent(decision: Decision, { common: { event_id } }: Event): Decision {
  return { ...decision, event_id };
}

function bodyPlace(event: Event, { target, headers }: Head, direction: BodyPlace["direction"]): BodyPlace {
  const { scheme, host, port } = event.http!.request;
  const content_type = headerValue(headers, "content-type");
  const path = target.split("?", 1)[0];
  return { scheme, host, port, direction, path, ...(content_type !== undefined && { content_type }) };
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
