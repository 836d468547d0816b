/**
 * Answers of a MySQL server to one command: they pass unchanged, and are read
 * as far as their end can be seen.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { RelayedBytes } from "../relay.ts";
import { DATA_MESSAGE_MAX } from "./limit.ts";
import { SecretMask } from "./mask.ts";
import {
  need,
  nextPacket,
  okStatus,
  PACKET_HEAD,
  PACKET_MAX,
  packetHead,
  PacketReader,
  readError,
  requireSequence,
  STATUS,
} from "./mysql_packet.ts";

/** Longest packet that says something of the answer, in `bytes`. */
const CONTROL_MAX = 1024 * 1024;
/** Bytes of an answer that go out together. */
const BATCH = 64 * 1024;
/** Longest piece of a row that streams, in `bytes`. */
const PIECE_MAX = 128 * 1024;

/** Form of the answer to a command. */
export type AnswerShape = "none" | "one" | "results" | "rows" | "columns" | "prepared";

/** An answer at its end. */
export interface Answer {
  bytes: number;
  /** SQLSTATE of the server's error */
  error?: string;
  /** number of a statement that was prepared */
  prepared?: number;
}

interface Control {
  first: number;
  body: Uint8Array;
}

/** Relays the answers of one connection, one after another. */
export class AnswerRelay {
  /** number of the next packet for the client; `undefined` in the middle of one */
  sequence: number | undefined = 0;
  /** bytes and error of the answer so far */
  answer: Answer = { bytes: 0 };
  /** the server's flags at the end of the last statement */
  status: number;
  readonly #mask: SecretMask;
  #out: Uint8Array[] = [];
  #waiting = 0;

  constructor(
    readonly client: BufferedConnection,
    readonly server: BufferedConnection,
    readonly moved: RelayedBytes,
    secret: string,
    /** the server ends results by an OK in place of EOF */
    readonly hasNoEof: boolean,
    status: number,
    readonly keepAlive: () => void,
  ) {
    this.status = status;
    this.#mask = new SecretMask(secret);
  }

  /** @throws {MessageFault}, {ConnectionLost} */
  async relay(shape: AnswerShape): Promise<Answer> {
    this.answer = { bytes: 0 };
    this.sequence = 1;
    // The client has all packets before the one that ends the connection.
    await this.#read(shape).finally(() => this.#flush());
    this.sequence = 0;
    return this.answer;
  }

  async #read(shape: AnswerShape): Promise<void> {
    if (shape === "one") await this.#one();
    else if (shape === "results") await this.#results();
    else if (shape === "rows" || shape === "columns") await this.#rows();
    else if (shape === "prepared") await this.#prepared();
  }

  /** Passes one packet of the server that nothing asked for, such as the reason for its end. */
  async last(): Promise<void> {
    this.sequence = 0;
    const { first } = await this.#control();
    await this.#flush();
    if (first !== 0xff) throw new MessageFault("an answer that nothing asked for");
  }

  async #one(): Promise<void> {
    const { first, body } = await this.#control();
    // Statistics are a text, which begins otherwise.
    if (first === 0x00) this.status = okStatus(body);
  }

  async #results(): Promise<void> {
    while (true) {
      if ((await this.#head()).first === 0xfb) throw new MessageFault("a request for a file of the client");
      const { first, body } = await this.#control();
      if (first === 0xff) return;
      let status: number;
      if (first === 0x00) this.status = status = okStatus(body);
      else {
        await this.#columns(new PacketReader(body).count());
        const end = this.hasNoEof ? undefined : this.#end(await this.#control());
        // The rows of a cursor wait for a fetch.
        status = end !== undefined && (end & STATUS.CURSOR) !== 0 ? end : await this.#rows();
      }
      if ((status & STATUS.MORE_RESULTS) === 0) return;
    }
  }

  async #prepared(): Promise<void> {
    const { first, body } = await this.#control();
    if (first === 0xff) return;
    const reader = new PacketReader(body, 1);
    if (first !== 0x00) throw new MessageFault("a false answer to a statement that is prepared");
    this.answer.prepared = reader.uint(4);
    const columns = reader.uint(2);
    for (const count of [reader.uint(2), columns]) {
      if (count === 0) continue;
      await this.#columns(count);
      if (!this.hasNoEof) this.#end(await this.#control());
    }
  }

  async #columns(count: number): Promise<void> {
    for (let at = 0; at < count; at++) await this.#control(false);
  }

  /** @returns the server's status at the end of rows; 0 after an error */
  async #rows(): Promise<number> {
    while (true) {
      const control = await this.#packet();
      if (control === undefined) continue;
      if (control.first === 0xff) return 0;
      return this.#end(control);
    }
  }

  #end({ first, body }: Control): number {
    if (first !== 0xfe) throw new MessageFault("a result without its end");
    return this.status = this.hasNoEof ? okStatus(body) : new PacketReader(body, 3).uint(2);
  }

  /** Passes a packet of a row, or the one at the end of rows. @returns the latter */
  async #packet(): Promise<Control | undefined> {
    const { first, length } = await this.#head();
    if (first === 0xff || first === 0xfe && length < (this.hasNoEof ? PACKET_MAX : 9)) {
      return await this.#control();
    }
    if (length < PIECE_MAX) {
      await this.#whole();
      return undefined;
    }
    await this.#stream();
    return undefined;
  }

  /** Passes a short packet. */
  async #control(mayFail = true): Promise<Control> {
    const { first, length } = await this.#head();
    if (length === 0) throw new MessageFault("an empty packet");
    if (length > CONTROL_MAX) throw new MessageFault("a packet that is too long");
    const body = await this.#whole();
    if (mayFail && first === 0xff) {
      const { state } = readError(body);
      this.answer.error ??= state;
    }
    return { first, body };
  }

  /** Waits for the beginning of the next packet, with its first byte. */
  async #head(): Promise<{ first: number; length: number }> {
    const { server } = this;
    if (server.count < PACKET_HEAD) await this.#flush();
    const head = await nextPacket(server);
    if (!head) throw new ConnectionLost("closed the connection");
    this.keepAlive();
    requireSequence(head, this.sequence!);
    if (head.length > 0 && server.count === PACKET_HEAD) {
      await this.#flush();
      await need(server, PACKET_HEAD + 1);
    }
    return { first: head.length === 0 ? -1 : server.unread[PACKET_HEAD], length: head.length };
  }

  async #whole(): Promise<Uint8Array> {
    const { server } = this;
    const { length, sequence } = (await nextPacket(server))!;
    await need(server, PACKET_HEAD + length);
    const body = server.unread.slice(PACKET_HEAD, PACKET_HEAD + length);
    server.skip(PACKET_HEAD + length);
    await this.#put(packetHead({ length, sequence }), this.#mask.push(body, true));
    this.sequence = sequence + 1;
    return body;
  }

  /** Passes a long row, which may go on in further packets; the password may lie across two of them. */
  async #stream(): Promise<void> {
    const { server } = this;
    const frames: { length: number; sequence: number }[] = [];
    let open = 0;
    let total = 0;
    let next = this.sequence!;
    this.sequence = undefined;
    const put = async (bytes: Uint8Array) => {
      for (let at = 0; at < bytes.length;) {
        if (open === 0) {
          const frame = frames.shift()!;
          open = frame.length;
          await this.#put(packetHead(frame));
        }
        const piece = bytes.subarray(at, at + open);
        open -= piece.length;
        at += piece.length;
        await this.#put(piece);
      }
    };
    while (true) {
      const head = await nextPacket(server);
      if (!head) throw new ConnectionLost("closed the connection");
      requireSequence(head, next++);
      total += head.length;
      if (total > DATA_MESSAGE_MAX) throw new MessageFault("a row that is too long");
      server.skip(PACKET_HEAD);
      frames.push(head);
      const isLast = head.length < PACKET_MAX;
      if (head.length === 0) {
        await put(this.#mask.push(new Uint8Array(), true));
        await this.#put(packetHead(frames.shift()!));
      }
      for (let left = head.length; left > 0;) {
        if (server.count === 0 && !await server.fill()) throw new ConnectionLost("closed the connection");
        this.keepAlive();
        const piece = server.unread.slice(0, Math.min(left, PIECE_MAX));
        server.skip(piece.length);
        left -= piece.length;
        await put(this.#mask.push(piece, isLast && left === 0));
      }
      if (isLast) break;
    }
    this.sequence = next;
  }

  async #put(...parts: Uint8Array[]): Promise<void> {
    for (const part of parts) {
      this.#out.push(part);
      this.#waiting += part.length;
      this.moved.received += part.length;
      this.answer.bytes += part.length;
    }
    if (this.#waiting >= BATCH) await this.#flush();
  }

  async #flush(): Promise<void> {
    const out = this.#out;
    this.#out = [];
    this.#waiting = 0;
    if (out.length > 0) await this.client.write(joinBytes(out));
  }
}
