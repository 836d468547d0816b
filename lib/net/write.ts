/** Heads and bodies of HTTP/1.1 messages as they are written, in as few writes as can be. */
import type { BodySource } from "./body.ts";
import type { Connection } from "./connection.ts";
import type { Header } from "./header.ts";
import { putLatin1 } from "./latin1.ts";

/** Bodies up to this go out with their head, in one write. */
const JOINED_MAX = 64 * 1024;

/** A head as text: first line, fields, and its empty line. */
export function headText(first: string, headers: readonly Header[], more = ""): string {
  let text = first + "\r\n";
  for (const [name, value] of headers) text += `${name}: ${value}\r\n`;
  return text + more + "\r\n";
}

/** Head and body in one piece. */
export function joined(head: string, body?: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(head.length + (body?.length ?? 0));
  const at = putLatin1(head, bytes, 0);
  if (body) bytes.set(body, at);
  return bytes;
}

/** Writes one message's body behind its head. */
export class BodyWriter {
  #head?: string;
  #scratch = new Uint8Array();

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
  async flush(): Promise<void> {
    if (this.#head !== undefined) await this.#send(new Uint8Array(), "", "");
  }

  async write(piece: Uint8Array): Promise<void> {
    if (piece.length === 0) return;
    if (this.chunked) await this.#send(piece, `${piece.length.toString(16)}\r\n`, "\r\n");
    else await this.#send(piece, "", "");
  }

  /** Ends the body. */
  async end(trailers: readonly Header[] = []): Promise<void> {
    if (this.chunked) await this.#send(new Uint8Array(), headText("0", trailers), "");
    else await this.flush();
  }

  /** Writes everything of a body. @param change what goes out for a piece, and at the end */
  async all(body: BodySource, change?: BodyChange): Promise<void> {
    for (let piece = await body.read(); piece !== null; piece = await body.read()) {
      await this.write(change ? change.push(piece) : piece);
    }
    if (change) await this.write(change.end());
  }

  async #send(piece: Uint8Array, before: string, behind: string): Promise<void> {
    const start = (this.#head ?? "") + before;
    this.#head = undefined;
    this.connection.deadline.set(this.idleMs);
    if (start === "" && behind === "") return await this.connection.write(piece);
    const size = start.length + piece.length + behind.length;
    if (this.#scratch.length < size) {
      this.#scratch = new Uint8Array(Math.max(size, Math.min(JOINED_MAX, size * 2)));
    }
    let at = putLatin1(start, this.#scratch, 0);
    this.#scratch.set(piece, at);
    at = putLatin1(behind, this.#scratch, at + piece.length);
    await this.connection.write(this.#scratch.subarray(0, at));
  }
}

/** Changes bytes on their way; see `BodyFilter`. */
export interface BodyChange {
  push(piece: Uint8Array): Uint8Array;
  end(): Uint8Array;
}
