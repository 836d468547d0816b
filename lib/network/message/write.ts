/** Writes heads and bodies of HTTP/1.1 messages in few writes. */
import type { BufferedConnection } from "../connection.ts";
import type { BodySource } from "./body.ts";
import type { Header } from "./header.ts";

/** Byte text of a head: first line, fields, and the empty line. @param more further fields, each with its line end */
export function formatHead(first: string, headers: readonly Header[], more = ""): string {
  let text = first + "\r\n";
  for (const [name, value] of headers) text += `${name}: ${value}\r\n`;
  return text + more + "\r\n";
}

/** Writes one message: its head with the first piece of its body, then the rest. */
export class BodyWriter {
  #head?: string;

  /**
   * @param head byte text that goes out with the first piece
   * @param isChunked true for a body in chunks
   * @param idleMs timeout of each write
   */
  constructor(
    readonly connection: BufferedConnection,
    head: string,
    readonly isChunked: boolean,
    readonly idleMs: number,
  ) {
    this.#head = head;
  }

  /** Writes the head, if it is not written yet. */
  flush(): Promise<void> {
    return this.#head === undefined ? Promise.resolve() : this.#send(undefined, "", "");
  }

  write(piece: Uint8Array): Promise<void> {
    if (piece.length === 0) return Promise.resolve();
    return this.isChunked
      ? this.#send(piece, `${piece.length.toString(16)}\r\n`, "\r\n")
      : this.#send(piece, "", "");
  }

  /** Ends the body. */
  end(trailers: readonly Header[] = []): Promise<void> {
    return this.isChunked ? this.#send(undefined, formatHead("0", trailers), "") : this.flush();
  }

  /** Writes a body to its end. */
  async writeAll(body: BodySource): Promise<void> {
    for (let piece = await body.read(); piece !== null; piece = await body.read()) await this.write(piece);
  }

  #send(piece: Uint8Array | undefined, before: string, after: string): Promise<void> {
    const start = this.#head === undefined ? before : this.#head + before;
    this.#head = undefined;
    this.connection.deadline.set(this.idleMs);
    if (piece && start === "" && after === "") return this.connection.write(piece);
    return this.connection.writeJoined(start, piece, after);
  }
}
