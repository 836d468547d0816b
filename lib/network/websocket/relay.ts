/** Relay of a WebSocket: every frame is parsed, changed where necessary, and rewritten. */
import { ignore } from "../../base/error/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost } from "../fault.ts";
import { DRAIN_MAX, PINGS_MAX } from "../limit.ts";
import type { RelayedBytes } from "../relay.ts";
import {
  CLOSE,
  type ControlFrame,
  type DataPiece,
  formatClose,
  FrameReader,
  FrameWriter,
  parseClose,
  type Side,
} from "./frame.ts";
import type { Deflate } from "./deflate.ts";
import { SocketFault } from "./fault.ts";

/** Ends a WebSocket from within: both sides receive the code. */
export class SocketEnded extends Error {
  override name = "SocketEnded";

  /** @param message reason, for the record */
  constructor(message: string, readonly code: number, cause?: unknown) {
    super(message, { cause });
  }
}

/** Changes the data of one direction. */
export interface SocketChannel {
  /**
   * Takes the next part of a message.
   *
   * @returns bytes to send instead, which may be overwritten; `undefined` for none,
   * not even the end of the message
   * @throws {SocketEnded}
   */
  take(piece: DataPiece): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Takes the reason of a close frame, the last text of its side. @throws {SocketEnded} */
  takeReason(reason: Uint8Array): Uint8Array;
}

/** How a WebSocket ended. */
export interface SocketEnd {
  /** reason of an early end */
  error?: string;
  /** frames that could not be read safely */
  fault?: { side: Side; reason: string };
}

export interface SocketOptions {
  /** idle timeout in `ms` */
  relayMs: number;
  /** time for the closing handshake in `ms` */
  closeMs: number;
  moved: RelayedBytes;
  /** compression agreed on with each side */
  deflate?: Partial<Record<Side, Deflate>>;
  /** false: messages to the upstream are written without compression */
  mayCompress?(): boolean;
}

/** One WebSocket between a guest and an upstream. */
export class SocketRelay {
  readonly #connections: Record<Side, BufferedConnection>;
  readonly #writers: Record<Side, FrameWriter>;
  /** pings of each side, on their way to the other */
  readonly #pings: Record<Side, PingTable> = { guest: new PingTable(), upstream: new PingTable() };
  readonly #options: SocketOptions;
  readonly #over = new AbortController();
  #closedSides = new Set<Side>();
  #end: SocketEnd = {};

  constructor(guest: BufferedConnection, upstream: BufferedConnection, options: SocketOptions) {
    this.#connections = { guest, upstream };
    const { deflate } = options;
    this.#writers = {
      guest: new FrameWriter(guest, "guest", deflate?.guest),
      upstream: new FrameWriter(upstream, "upstream", deflate?.upstream),
    };
    this.#options = options;
  }

  /** Aborts when the relay ends. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Sends a text message of sbx to the guest. */
  async tellGuest(text: string): Promise<void> {
    await this.#writers.guest.writeText(text);
  }

  /** Waits for a decision, which may take a person: ends the relay when the guest goes away meanwhile. */
  async wait<T>(decision: Promise<T>): Promise<T> {
    const { guest } = this.#connections;
    this.#setDeadline(Infinity);
    guest.listen(() => this.#finish());
    try {
      return await decision;
    } finally {
      guest.unlisten();
      this.#keepAlive();
    }
  }

  /** Relays until both sides have ended. @param channels of the data that comes from each side */
  async run(channels: Record<Side, SocketChannel>): Promise<SocketEnd> {
    this.#keepAlive();
    try {
      await Promise.all([this.#serve("guest", channels.guest), this.#serve("upstream", channels.upstream)]);
    } finally {
      this.#over.abort();
      for (const connection of Object.values(this.#connections)) connection.close();
      for (const writer of Object.values(this.#writers)) writer.close();
    }
    return this.#end;
  }

  /** Relays one side's frames, then drops further input until the side closes its connection. */
  async #serve(side: Side, channel: SocketChannel): Promise<void> {
    try {
      await this.#relay(side, channel);
    } catch (error) {
      this.#fail(side, error);
    }
    await this.#drop(this.#connections[side]);
  }

  async #relay(side: Side, channel: SocketChannel): Promise<void> {
    const reader = new FrameReader(this.#connections[side], side, this.#options.deflate?.[side]);
    try {
      await this.#relayFrames(reader, channel, side);
    } finally {
      reader.close();
    }
  }

  async #relayFrames(reader: FrameReader, channel: SocketChannel, side: Side): Promise<void> {
    const to = side === "guest" ? "upstream" : "guest";
    const count = side === "guest" ? "sent" : "received";
    while (!this.over.aborted) {
      const next = await reader.next();
      this.#options.moved[count] = reader.bytes;
      if (this.over.aborted) return;
      if (next === null) return this.#finish();
      this.#keepAlive();
      if (next.kind === "data") {
        const bytes = await channel.take(next);
        if (bytes && !this.over.aborted) {
          const compresses = next.isCompressed && (to === "guest" || this.#options.mayCompress?.() !== false);
          await blame(to, this.#writers[to].writeData(next.isText, bytes, next.isLast, compresses));
        }
      } else if (next.kind === "close") return await this.#relayClose(next, channel, side, to);
      else await this.#relayPing(next, side, to);
    }
  }

  async #relayPing({ kind, payload }: ControlFrame, side: Side, to: Side): Promise<void> {
    if (kind === "ping") {
      return await blame(to, this.#writers[to].writeControl("ping", this.#pings[side].send(payload)));
    }
    const answered = this.#pings[to].receive(payload);
    if (answered) await blame(to, this.#writers[to].writeControl("pong", answered));
  }

  async #relayClose({ payload }: ControlFrame, channel: SocketChannel, side: Side, to: Side): Promise<void> {
    const close = parseClose(payload);
    const passed = close ? formatClose(close.code, channel.takeReason(close.reason)) : new Uint8Array();
    await blame(to, this.#writers[to].writeControl("close", passed));
    this.#closedSides.add(side);
    if (this.#closedSides.size === 2) this.#finish();
    else this.#setDeadline(this.#options.closeMs);
  }

  #fail(side: Side, error: unknown): void {
    if (this.over.aborted || this.#closedSides.size > 0 && error instanceof ConnectionLost) {
      return this.#finish();
    }
    if (error instanceof SocketFault) {
      const reason = error.reason;
      this.#end = { error: `${NAMES[side]} sent a WebSocket frame that cannot be read safely: ${reason}` };
      this.#end.fault = { side, reason };
      this.#finish(error.code);
    } else if (error instanceof SocketEnded) {
      this.#end = { error: error.message };
      this.#finish(error.code);
    } else if (error instanceof ConnectionLost) {
      this.#end = { error: `${NAMES[error instanceof SideLost ? error.side : side]} ${error.why}` };
      this.#finish();
    } else {
      this.#finish(CLOSE.internal);
      throw error;
    }
  }

  /** Stops relaying. @param code of a close frame to both sides; without one, connections just end */
  #finish(code?: number): void {
    if (this.over.aborted) return;
    this.#over.abort();
    for (const writer of Object.values(this.#writers)) {
      if (code !== undefined) {
        writer.writeControl("close", formatClose(code)).catch(ignore("the connection ends either way"));
      }
      writer.end();
    }
    this.#setDeadline(this.#options.closeMs);
  }

  /** Reads and drops a side's remaining output, so that it reads its own input. */
  async #drop(connection: BufferedConnection): Promise<void> {
    let dropped = 0;
    try {
      do {
        dropped += connection.count;
        connection.skip(connection.count);
      } while (dropped < DRAIN_MAX && await connection.fill());
    } catch {
      // Gone already.
    }
    // A side that closed its connection without a close frame ends the relay.
    if (dropped >= DRAIN_MAX) connection.close();
    this.#finish();
  }

  #keepAlive(): void {
    if (this.#closedSides.size === 0 && !this.over.aborted) this.#setDeadline(this.#options.relayMs);
  }

  #setDeadline(ms: number): void {
    for (const { deadline } of Object.values(this.#connections)) deadline.set(ms);
  }
}

const NAMES: Record<Side, string> = { guest: "the client", upstream: "the upstream" };

/** A side that was lost while it was written to. */
class SideLost extends ConnectionLost {
  constructor(readonly side: Side, { why, timedOut }: ConnectionLost) {
    super(why, timedOut);
  }
}

async function blame(side: Side, writing: Promise<void>): Promise<void> {
  try {
    await writing;
  } catch (error) {
    throw error instanceof ConnectionLost ? new SideLost(side, error) : error;
  }
}

/**
 * Pings of one side on their way to the other. They travel with a number instead of their payload, and come
 * back with it: a payload could carry a secret past the search of messages.
 */
export class PingTable {
  readonly #payloads = new Map<number, Uint8Array>();
  #count = 0;

  /** Payload to send in place of one. */
  send(payload: Uint8Array): Uint8Array {
    const number = this.#count++ >>> 0;
    this.#payloads.set(number, payload);
    // The answer to the latest ping is enough (RFC 6455 §5.5.3).
    if (this.#payloads.size > PINGS_MAX) this.#payloads.delete(this.#payloads.keys().next().value!);
    const sent = new Uint8Array(4);
    new DataView(sent.buffer).setUint32(0, number);
    return sent;
  }

  /** Payload that a pong answers; `undefined` for a pong to no ping. */
  receive(payload: Uint8Array): Uint8Array | undefined {
    if (payload.length !== 4) return undefined;
    const number = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
    const sent = this.#payloads.get(number);
    this.#payloads.delete(number);
    return sent;
  }
}
