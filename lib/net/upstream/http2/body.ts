import type { BodySource } from "../../message/body.ts";
import { MessageFault } from "../../fault.ts";
import { Gathered } from "../../message/gathered.ts";
import type { Header } from "../../message/header.ts";

/** What waits of a stream's body until it is read; the stream's window bounds it. */
export class Http2Body implements BodySource {
  trailers: readonly Header[] = [];
  readonly length?: number;
  readonly #waits: () => void;
  readonly #taken: (count: number) => void;
  #gathered = new Gathered();
  #size = 0;
  #ended = false;
  #error?: Error;
  #wake?: () => void;

  /**
   * @param length as the head says it
   * @param waits called when somebody waits for bytes
   * @param taken called with the number of bytes that were read
   */
  constructor(length: number | undefined, waits: () => void, taken: (count: number) => void) {
    if (length !== undefined) this.length = length;
    this.#waits = waits;
    this.#taken = taken;
  }

  get done(): boolean {
    return this.#ended && this.#gathered.count === 0;
  }

  get ready(): boolean {
    return this.#gathered.count > 0;
  }

  async read(): Promise<Uint8Array | null> {
    while (true) {
      const { bytes } = this.#gathered;
      if (bytes.length > 0) {
        this.#gathered = new Gathered();
        this.#taken(bytes.length);
        return bytes;
      }
      if (this.#error) throw this.#error;
      if (this.#ended) return null;
      this.#waits();
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  /** @throws {MessageFault} for more bytes than the head said */
  push(piece: Uint8Array): void {
    this.#size += piece.length;
    if (this.#size > (this.length ?? Infinity)) {
      throw new MessageFault("its body is longer than its head says");
    }
    this.#gathered.add(piece);
    this.#wake?.();
  }

  /** @throws {MessageFault} for fewer bytes than the head said */
  end(trailers: readonly Header[]): void {
    if (this.#size < (this.length ?? 0)) throw new MessageFault("its body is shorter than its head says");
    this.trailers = trailers;
    this.#ended = true;
    this.#wake?.();
  }

  /** What came before is still read. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#error ??= error;
    this.#wake?.();
  }
}
