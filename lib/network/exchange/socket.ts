/** The WebSocket of an exchange: its messages pass through the broker, and its faults are recorded. */
import { guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { lenientPath } from "../../base/url/mod.ts";
import type { CredentialSubstitution, Event } from "../../event/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import {
  type BodyPlace,
  CredentialDenied,
  type CredentialPort,
  type MessageFilter,
  type ModelCall,
  type ModelRequest,
  type ModelSocket,
  type Scrub,
  type SocketResponse,
} from "../interface/mod.ts";
import type { RelayedBytes } from "../relay.ts";
import {
  CLOSE,
  type DataPiece,
  type Deflate,
  EXTENSIONS,
  type Side,
  type SocketChannel,
  SocketEnded,
  SocketRelay,
} from "../websocket/mod.ts";
import type { ExchangeContext } from "./context.ts";
import { requesterOf } from "./draft.ts";
import { type Decision, type Gate, guestLine } from "../../policy/mod.ts";
import { SOCKET_CALLS_MAX, SOCKET_DEFLATE_BYTES } from "../limit.ts";
import { NO_BYTES } from "../message/bytes.ts";
import type { Header } from "../message/header.ts";
import type { BufferBudget, Receiving } from "./body_buffer.ts";
import type { Requester } from "./request.ts";
import { SocketRecord } from "./socket_record.ts";
import { ModelTap, type TapEnd } from "./model_tap.ts";

export interface SocketExchangeOptions {
  /** event of the upgrade, as policy allowed it */
  event: Event;
  /** records substitutions of the broker @throws {SbxError} `ledger.unavailable` */
  record(substitutions: Iterable<CredentialSubstitution>): void;
  /** compression agreed on with the guest */
  deflate: Deflate | undefined;
  /** the upstream */
  place: BodyPlace;
}

/** Accepts the compression that a guest offered, where there is room for its windows. */
export function takeWindows(budget: BufferBudget, offered: Deflate | undefined): Deflate | undefined {
  return offered && budget.takeSpare(SOCKET_DEFLATE_BYTES) ? offered : undefined;
}

/** Gives the room back. @param taken as {@linkcode takeWindows} returned it */
export function releaseWindows(budget: BufferBudget, taken: Deflate | undefined): void {
  if (taken) budget.bytes -= SOCKET_DEFLATE_BYTES;
}

export class SocketExchange {
  readonly #context: ExchangeContext;
  readonly #options: SocketExchangeOptions;
  #record?: SocketRecord;

  constructor(context: ExchangeContext, options: SocketExchangeOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Fields of the answer to the guest: its compression is another than the upstream's. */
  fields(headers: readonly Header[]): Header[] {
    const { deflate } = this.#options;
    const others = headers.filter(([name]) => name !== EXTENSIONS);
    return deflate ? [...others, [EXTENSIONS, deflate.answer]] : others;
  }

  /**
   * Relays until both sides have ended.
   *
   * @param deflate compression agreed on with the upstream
   * @returns reason of an early end
   * @throws {SbxError}
   */
  async relay(
    guest: BufferedConnection,
    upstream: BufferedConnection,
    moved: RelayedBytes,
    deflate?: Deflate,
  ): Promise<string | undefined> {
    const { relayMs, closeMs } = this.#context;
    const { deflate: own, place } = this.#options;
    const relay = new SocketRelay(guest, upstream, {
      relayMs,
      closeMs,
      moved,
      // The length of a message that is compressed reveals a secret beside a text of the guest.
      mayCompress: () => !this.#context.broker.guards(place),
      deflate: { ...(own && { guest: own }), ...(deflate && { upstream: deflate }) },
    });
    const channels = { guest: this.#channelOf("request"), upstream: this.#channelOf("response") };
    const model = this.#modelOf(relay);
    const { error, fault } = await relay.run(
      model
        ? { guest: model.guest(channels.guest), upstream: model.upstream(channels.upstream) }
        : this.#recorded(channels),
    ).finally(() => model?.end());
    if (fault?.side === "guest") this.#refuse(fault.reason);
    return error;
  }

  /** Fields of the event of a WebSocket that is over. */
  async messages(): ReturnType<SocketRecord["end"]> {
    return await this.#record?.end() ?? {};
  }

  /** Model calls are events of their own; other messages are recorded where that is chosen. */
  #recorded({ guest, upstream }: Record<Side, SocketChannel>): Record<Side, SocketChannel> {
    const { recordsMessages, broker, budget } = this.#context;
    const record = this.#record = recordsMessages ? SocketRecord.begin(broker, budget) : undefined;
    return record
      ? { guest: record.channel("guest", guest), upstream: record.channel("upstream", upstream) }
      : { guest, upstream };
  }

  #channelOf(direction: "request" | "response"): SocketChannel {
    const { event, record } = this.#options;
    const { scheme, host, port } = event.http!.request;
    return new SecretChannel(this.#context.broker.messages({ scheme, host, port, direction }), record);
  }

  /** Model calls of the WebSocket; `undefined` where its messages are of no API that is read. */
  #modelOf(relay: SocketRelay): SocketModel | undefined {
    const { gate, broker, models, budget } = this.#context;
    const by = requesterOf(this.#options.event.common);
    const socket = models?.socket?.(socketRequestOf(this.#options.event));
    return socket && new SocketModel({ gate, broker, by, socket, relay, budget });
  }

  /** Records frames of the guest that cannot be read safely. */
  #refuse(reason: string): void {
    const { event } = this.#options;
    const labels = { event_id: event.common.event_id };
    const kind = { event_type: "http.request", source_engine: "network", labels } as const;
    const { request } = event.http!;
    this.#context.gate.refuse({ common: { ...kind, ...requesterOf(event.common) }, http: { request } }, {
      id: "guard-malformed-websocket",
      reason: `the frames of the WebSocket cannot be read safely: ${reason}`,
      remedy: "send frames as RFC 6455 and RFC 7692 require, without other extensions",
    });
  }
}

/** Upgraded request as the model port reads it. */
export function socketRequestOf({ http }: Pick<Event, "http">): ModelRequest {
  const { method, scheme, host, port, path, query } = http!.request;
  return { method, scheme, host, port, path: lenientPath(path), query, headers: [] };
}

/** Messages of one direction through the broker's filter. */
class SecretChannel implements SocketChannel {
  readonly #filter: MessageFilter;
  readonly #record: SocketExchangeOptions["record"];
  #recorded = 0;

  constructor(filter: MessageFilter, record: SocketExchangeOptions["record"]) {
    this.#filter = filter;
    this.#record = record;
  }

  take({ bytes, isLast }: DataPiece): Uint8Array {
    return this.#push(bytes, isLast);
  }

  takeReason(reason: Uint8Array): Uint8Array {
    return this.#push(reason, true);
  }

  #push(bytes: Uint8Array, isLast: boolean): Uint8Array {
    try {
      const passed = this.#filter.push(bytes, isLast);
      this.#recordNew();
      return passed;
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      if (!(error instanceof CredentialDenied)) throw new SocketEnded(error.message, CLOSE.internal, error);
      this.#recordNew();
      this.#record(error.substitutions);
      throw new SocketEnded(error.message, CLOSE.policy, error);
    }
  }

  #recordNew(): void {
    const { substitutions } = this.#filter;
    if (substitutions.length === this.#recorded) return;
    const added = substitutions.slice(this.#recorded);
    this.#recorded = substitutions.length;
    this.#record(added);
  }
}

// Model calls on a WebSocket: each is an event of its own, decided on before its message is sent.

interface SocketModelOptions {
  gate: Gate;
  broker: CredentialPort;
  by: Requester;
  socket: ModelSocket;
  relay: SocketRelay;
  /** bytes that the VM's network buffers */
  budget: BufferBudget;
}

/** Events of an upstream as the readers of responses take them: JSON, one a line. */
const EVENT_LINES: Header[] = [["content-type", "application/x-ndjson"]];

/** The model calls of one WebSocket. */
class SocketModel {
  readonly #options: SocketModelOptions;
  readonly #taps = new Map<ModelCall, ModelTap>();
  /** calls of audio */
  readonly #turns = new WeakSet<ModelCall>();

  readonly #requests: MessageBuffer;
  readonly #responses: MessageBuffer;

  constructor(options: SocketModelOptions) {
    const { budget, socket } = this.#options = options;
    this.#requests = new MessageBuffer(budget, socket.requestMax);
    this.#responses = new MessageBuffer(budget, socket.responseMax);
  }

  /** Messages of the guest. @param channel takes the messages that may be sent */
  guest(channel: SocketChannel): SocketChannel {
    const message = this.#requests;
    return {
      take: async (piece) => {
        const bytes = message.add(piece);
        if (!bytes) throw tooLong(this.#options.socket.requestMax);
        if (!piece.isLast) return undefined;
        try {
          const sent = await this.#decide(bytes, piece.isText);
          return sent && await channel.take({ ...piece, bytes: sent });
        } finally {
          message.release();
        }
      },
      takeReason: (reason) => channel.takeReason(reason),
    };
  }

  /** Messages of the upstream. @param channel takes them before they are read: readers see refs */
  upstream(channel: SocketChannel): SocketChannel {
    const message = this.#responses;
    return {
      take: async (piece) => {
        const bytes = await channel.take(piece);
        const whole = message.add({ bytes: bytes ?? NO_BYTES, isLast: piece.isLast });
        if (!piece.isLast) return bytes;
        if (whole && piece.isText) this.#readSafely(new TextDecoder().decode(whole));
        message.release();
        return bytes;
      },
      takeReason: (reason) => channel.takeReason(reason),
    };
  }

  /** Ends the calls whose responses are incomplete. */
  end(error = "the WebSocket was closed before the response was complete"): void {
    this.#requests.release();
    this.#responses.release();
    // Audio in which the upstream heard no turn made no response.
    for (const [call, tap] of this.#taps) tap.end(error, { unsent: this.#turns.has(call) && !tap.begun });
    this.#taps.clear();
  }

  /** @returns the message to send; `undefined` when its call is refused, which is reported to the guest */
  async #decide(bytes: Uint8Array, isText: boolean): Promise<Uint8Array | undefined> {
    const { gate, broker, by, socket, relay } = this.#options;
    const request = socket.request(isText ? new TextDecoder().decode(bytes) : undefined);
    if (!request) return bytes;
    const { call, isTurn, replaces } = request;
    if (isTurn) this.#turns.add(call);
    // A response that the server makes all the same is a call of its own.
    if (replaces) this.#end(replaces, "the client asked for the response itself", { unsent: true });
    if (this.#taps.size >= SOCKET_CALLS_MAX) throw tooMany();
    const tap = new ModelTap(gate, call);
    const scrub: Scrub = (text, isCut) => broker.scrub(text, isCut);
    try {
      const verdict = await relay.wait(tap.decide(by, { bytes }, scrub, relay.over));
      if (verdict?.allowed === false) return await this.#refuse(call, verdict.decision);
      // A message that no reader takes for a call is sent as any other.
      if (verdict) this.#taps.set(call, tap);
      return verdict?.body ?? bytes;
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      tap.end(error.message, { unsent: true });
      const { code, error: message } = guestErrorBody(error);
      await relay.tellGuest(socket.refuse(call, code, message));
      return undefined;
    }
  }

  async #refuse(call: ModelCall, decision: Decision): Promise<undefined> {
    const { socket, relay } = this.#options;
    await relay.tellGuest(socket.refuse(call, "policy.blocked", guestLine(decision)));
  }

  /** @throws {SocketEnded} a call that cannot be recorded must not happen */
  #readSafely(text: string): void {
    try {
      this.#read(text);
    } catch (error) {
      throw error instanceof SbxError ? new SocketEnded(error.message, CLOSE.internal, error) : error;
    }
  }

  #read(text: string): void {
    const response = this.#options.socket.response(text);
    if (!response) return;
    const { call, status, isRead, isEnd } = response;
    const tap = this.#taps.get(call) ?? this.#observe(response);
    tap.begin(status, EVENT_LINES);
    if (isRead) tap.chunk(new TextEncoder().encode(`${text}\n`));
    if (isEnd) this.#end(call);
  }

  /** Records a call that the upstream made unrequested, without a decision. */
  #observe({ call }: SocketResponse): ModelTap {
    const { gate, broker, by } = this.#options;
    if (this.#taps.size >= SOCKET_CALLS_MAX) throw tooMany();
    const tap = new ModelTap(gate, call);
    tap.observe(by, (text, isCut) => broker.scrub(text, isCut));
    this.#taps.set(call, tap);
    return tap;
  }

  #end(call: ModelCall, error?: string, end?: TapEnd): void {
    this.#taps.get(call)?.end(error, end);
    this.#taps.delete(call);
  }
}

function tooLong(max: number): SocketEnded {
  const reason = `a message to a model is longer than ${max} bytes, or too many bytes wait for decisions`;
  return new SocketEnded(reason, CLOSE.tooBig);
}

function tooMany(): SocketEnded {
  return new SocketEnded(`more than ${SOCKET_CALLS_MAX} model calls wait for their responses`, CLOSE.policy);
}

/** Smallest buffer, in `bytes`. */
const BUFFER_MIN = 4 * 1024;

/**
 * Collects the pieces of one message after another, within the budget for all that a VM's network buffers.
 */
export class MessageBuffer implements Receiving {
  readonly #budget: BufferBudget;
  readonly #max: number;
  /** counted against the budget; one buffer, since pieces may be of a byte each */
  #bytes: Uint8Array = NO_BYTES;
  #size = 0;
  #isCut = false;

  /** @param max longest message in `bytes` */
  constructor(budget: BufferBudget, max: number) {
    this.#budget = budget;
    this.#max = max;
  }

  /**
   * Adds a copy of a piece. The message is held until {@linkcode MessageBuffer.release}.
   *
   * @returns the message so far; `undefined` for one that is too long to be held, or arrives
   * slowly while others need its room
   */
  add({ bytes, isLast }: Pick<DataPiece, "bytes" | "isLast">): Uint8Array | undefined {
    if (this.#isCut || !this.#reserve(this.#size + bytes.length)) {
      this.end();
      return undefined;
    }
    if (isLast) this.#budget.complete(this);
    else this.#budget.begin(this);
    this.#bytes.set(bytes, this.#size);
    this.#size += bytes.length;
    return this.#bytes.subarray(0, this.#size);
  }

  /** Drops the message, for the next one. */
  release(): void {
    this.#budget.complete(this);
    this.#budget.bytes -= this.#bytes.length;
    this.#bytes = NO_BYTES;
    this.#size = 0;
    this.#isCut = false;
  }

  end(): void {
    this.release();
    this.#isCut = true;
  }

  /** Makes room for `size` bytes. @returns false when they may not be held */
  #reserve(size: number): boolean {
    if (size <= this.#bytes.length) return true;
    const room = Math.min(Math.max(size, this.#bytes.length * 2, BUFFER_MIN), this.#max);
    // While it waits for room itself, it is not the one to make it.
    this.#budget.complete(this);
    if (size > this.#max || !this.#budget.take(room - this.#bytes.length)) return false;
    const larger = new Uint8Array(room);
    larger.set(this.#bytes.subarray(0, this.#size));
    this.#bytes = larger;
    return true;
  }
}
