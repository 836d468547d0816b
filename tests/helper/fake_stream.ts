/** Byte streams in memory. */
import type { ByteStream } from "../../lib/network/connection.ts";

/** A stream whose peer is the test. */
export class FakeStream implements ByteStream {
  /** bytes of each write */
  readonly written: Uint8Array[] = [];
  /** sizes of the buffers that reads offered */
  readonly rooms: number[] = [];
  closes = 0;
  ends = 0;
  /** most bytes that one write takes */
  writeMax = Infinity;
  #received = new Uint8Array();
  #isEnded = false;
  #failure?: Error;
  #wake?: () => void;

  /** Texts of the writes. */
  get writes(): string[] {
    return this.written.map((bytes) => new TextDecoder().decode(bytes));
  }

  /** Sends bytes to the connection; `null` ends them, and an error breaks them. */
  feed(piece: string | Uint8Array | null | Error): void {
    if (piece === null) this.#isEnded = true;
    else if (piece instanceof Error) this.#failure = piece;
    else {
      const bytes = typeof piece === "string" ? new TextEncoder().encode(piece) : piece;
      this.#received = Uint8Array.from([...this.#received, ...bytes]);
    }
    this.#wake?.();
  }

  async read(into: Uint8Array): Promise<number | null> {
    this.rooms.push(into.length);
    while (this.#received.length === 0 && !this.#isEnded && !this.#failure && this.closes === 0) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    if (this.#failure) throw this.#failure;
    if (this.closes > 0) throw new Error("closed");
    if (this.#received.length === 0) return null;
    const count = Math.min(into.length, this.#received.length);
    into.set(this.#received.subarray(0, count));
    this.#received = this.#received.slice(count);
    return count;
  }

  write(bytes: Uint8Array): Promise<number> {
    if (this.closes > 0) return Promise.reject(new Error("closed"));
    const taken = bytes.subarray(0, this.writeMax);
    this.written.push(taken.slice());
    return Promise.resolve(taken.length);
  }

  closeWrite(): Promise<void> {
    this.ends++;
    return Promise.resolve();
  }

  close(): void {
    if (this.closes++ > 0) throw new Error("closed already");
    this.#wake?.();
  }
}
