/** Reading and writing the channels of the library, at the pace of the slower side. */
import type { Readable, Writable } from "node:stream";
import type { Channel } from "./library.ts";
import type { SshStream } from "./stream.ts";

/** Bytes of a channel, in order. */
export class ChannelReader {
  readonly #source: Readable;
  #ended = false;
  #wake = Promise.withResolvers<void>();

  constructor(source: Readable) {
    this.#source = source;
    const wake = () => {
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    };
    const end = () => {
      this.#ended = true;
      wake();
    };
    source.on("readable", wake);
    for (const name of ["end", "close", "error"]) source.on(name, end);
  }

  /** Next bytes; `undefined` at the end. */
  async next(): Promise<Uint8Array | undefined> {
    while (true) {
      const bytes: Uint8Array | null = this.#source.read();
      if (bytes !== null) return bytes;
      if (this.#ended || this.#source.readableEnded) return undefined;
      await this.#wake.promise;
    }
  }
}

/** Writes under way; the library mixes up the rests of two that wait for a window. */
const turns = new WeakMap<Channel, Promise<void>>();

/** The writing side of a channel. */
export class ChannelWriter {
  readonly #sink: Writable;
  readonly #channel: Channel;
  readonly #stream: SshStream;
  readonly #gone: Promise<void>;

  /** @param sink the channel, or its stderr @param stream of its connection */
  constructor(channel: Channel, sink: Writable, stream: SshStream) {
    this.#channel = channel;
    this.#sink = sink;
    this.#stream = stream;
    const closed = new Promise<void>((resolve) => channel.once("close", resolve));
    this.#gone = Promise.race([closed, stream.gone]);
  }

  /** @returns false when the peer has closed the channel */
  async write(bytes: Uint8Array): Promise<boolean> {
    const turn = this.#write(bytes, turns.get(this.#channel));
    turns.set(this.#channel, turn);
    await turn;
    await this.#stream.room();
    return this.isOpen;
  }

  async #write(bytes: Uint8Array, before: Promise<void> | undefined): Promise<void> {
    await before;
    if (!this.isOpen) return;
    // The library keeps the rest of the last write, and would send it again in place of this one.
    Object.assign(this.#channel, { _chunk: undefined, _chunkcb: undefined });
    Object.assign(this.#channel, { _chunkErr: undefined, _chunkcbErr: undefined });
    this.#stream.give(bytes.length);
    // A write to a channel that closes never calls back.
    const written = new Promise<void>((resolve) => this.#sink.write(bytes, () => resolve()));
    await Promise.race([written, this.#gone]);
  }

  get isOpen(): boolean {
    return this.#sink.writable && this.#channel.outgoing.state === "open" && !this.#stream.destroyed;
  }
}

/** Copies until the end of the source. @param onBytes counts them; its errors are thrown */
export async function copy(
  from: Pick<ChannelReader, "next">,
  to: ChannelWriter,
  onBytes: (count: number) => void,
): Promise<void> {
  for (let bytes = await from.next(); bytes; bytes = await from.next()) {
    onBytes(bytes.length);
    if (!await to.write(bytes)) return;
  }
}
