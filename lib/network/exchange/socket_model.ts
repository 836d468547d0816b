/** Model calls on a WebSocket: each is an event of its own, decided on before its message is sent. */
import { guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { type Decision, type Gate, guestLine } from "../../policy/mod.ts";
import { SOCKET_CALLS_MAX } from "../limit.ts";
import { NO_BYTES } from "../message/byte_buffer.ts";
import type { Header } from "../message/header.ts";
import type { CredentialPort, ModelCall, ModelSocket, Scrub, SocketResponse } from "../interface/mod.ts";
import { CLOSE, type SocketChannel, SocketEnded, type SocketRelay } from "../websocket/mod.ts";
import type { BufferBudget } from "./buffer_budget.ts";
import type { Requester } from "./request.ts";
import { MessageBuffer } from "./message_buffer.ts";
import { ModelTap } from "./model_tap.ts";
import type { TapEnd } from "./response_tap.ts";

export interface SocketModelOptions {
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
export class SocketModel {
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
