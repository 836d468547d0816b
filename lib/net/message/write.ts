/** Heads and bodies of HTTP/1.1 messages as they are written, in as few writes as can be. */
import type { BodySource } from "./body.ts";
import type { Connection } from "../connection.ts";
import type { Header } from "./header.ts";

/** A head as text: first line, fields, and its empty line. */
export function headText(first: string, headers: readonly Header[], more = ""): string {
  let text = first + "\r\n";
  for (const [name, value] of headers) text += `${name}: ${value}\r\n`;
  return text + more + "\r\n";
}

/** Writes one message's body behind its head. */
export class BodyWriter {
  #head?: string;

  /**
   * @param head text that goes out with the first piece
   * @param chunked whether the body goes in chunks; otherwise its bytes are what they are
   * @param idleMs for every write
   */
  constructor(
    readonly connection: Connection,
    head: string,
    readonly chunked: boolean,
    readonly idleMs: number,
  ) {
    this.#head = head;
  }

  /** Writes the head if nothing has gone out yet. */
  flush(): Promise<void> {
    return this.#head === undefined ? Promise.resolve() : this.#send(undefined, "", "");
  }

  write(piece: Uint8Array): Promise<void> {
    if (piece.length === 0) return Promise.resolve();
    return this.chunked
      ? this.#send(piece, `${piece.length.toString(16)}\r\n`, "\r\n")
      : this.#send(piece, "", "");
  }

  /** Ends the body. */
  end(trailers: readonly Header[] = []): Promise<void> {
    return this.chunked ? this.#send(undefined, headText("0", trailers), "") : this.flush();
  }

  /** Writes everything of a body. @param change what goes out for a piece, and at the end */
  async all(body: BodySource, change?: BodyChange): Promise<void> {
    for (let piece = await body.read(); piece !== null; piece = await body.read()) {
      await this.write(change ? change.push(piece) : piece);
    }
    if (change) await this.write(change.end());
  }

  #send(piece: Uint8Array | undefined, before: string, behind: string): Promise<void> {
    const start = this.#head === undefined ? before : this.#head + before;
    this.#head = undefined;
    this.connection.deadline.set(this.idleMs);
    if (piece && start === "" && behind === "") return this.connection.write(piece);
    return this.connection.writeJoined(start, piece, behind);
  }
}

/** Changes bytes on their way; see `BodyFilter`. */
export interface BodyChange {
  push(piece: Uint8Array): Uint8Array;
  end(): Uint8Array;
}
