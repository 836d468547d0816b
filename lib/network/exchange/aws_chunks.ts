/**
 * Bodies in the chunks of S3 (`aws-chunked`): signatures of the guest are checked and replaced by the host's,
 * as the body passes (docs/design/contracts/09-credentials.md §9, "Signatures"). Every chunk keeps its size,
 * so lengths in the head stay true.
 */
import { createHash, type Hash } from "node:crypto";
import { joinBytes } from "../../base/bytes/mod.ts";
import type { BodyFilter, ChunkSignatures } from "../interface/mod.ts";
import { BUFFERED_BODY_MAX, CHUNK_LINE_MAX, TRAILERS_MAX } from "../limit.ts";
import type { BodySource } from "../message/body.ts";
import { decodeLatin1, NO_BYTES } from "../message/bytes.ts";
import type { Header } from "../message/header.ts";
import type { BufferBudget } from "./body_buffer.ts";

const LF = 10;
const CR = 13;
const BREAK = "\r\n";
const SIZE = "([0-9a-fA-F]{1,12})";
const SIGNED_LINE = new RegExp(`^${SIZE};chunk-signature=([0-9a-f]{64})$`);
const PLAIN_LINE = new RegExp(`^${SIZE}$`);
/** Base64 of a checksum. */
const TRAILER_LINE = /^([a-z0-9-]+):[ \t]*([A-Za-z0-9+/]{2,88}={0,2})[ \t]*$/i;
const TRAILER_SIGNATURE = /^x-amz-trailer-signature:[ \t]*([0-9a-f]{64})[ \t]*$/i;

/** A chunk on its way. */
interface Chunk {
  /** its size as the client wrote it */
  text: string;
  size: number;
  /** `bytes` of it that are still to be sent */
  left: number;
  /** the guest's signature of it was checked */
  checked: boolean;
}

/** Part of the body that is read next. */
type State = "line" | "data" | "break" | "trailers" | "over";

/** Body in chunks. Sends nothing of its end before all of it was checked: a faulty body is never complete. */
export class AwsChunkedBody implements BodySource {
  readonly trailers: readonly Header[] = [];
  readonly length?: number;
  done = false;
  readonly #body: BodySource;
  readonly #signatures: () => ChunkSignatures;
  readonly #filter?: BodyFilter;
  readonly #budget: BufferBudget;
  #state: State = "line";
  #unread: Uint8Array = NO_BYTES;
  /** `bytes` of the chunk that are still to be read */
  #remaining = 0;
  /** of the chunk as the guest sent it, and its signature */
  #hash: Hash = createHash("sha256");
  #signature = "";
  #total = 0;
  readonly #chunks: Chunk[] = [];
  /** filtered, to be sent */
  readonly #held: Uint8Array[] = [];
  #heldCount = 0;
  #reserved = 0;
  #begun = false;
  #last: Uint8Array = NO_BYTES;

  /** @param filter keeps the length of each replacement, or the body ends */
  constructor(
    body: BodySource,
    signatures: () => ChunkSignatures,
    filter: BodyFilter | undefined,
    budget: BufferBudget,
  ) {
    this.#body = body;
    this.#signatures = signatures;
    this.#filter = filter;
    this.#budget = budget;
    if (body.length !== undefined) this.length = body.length;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  /** @throws {CredentialDenied} for a body that is not as its head and signatures say */
  async read(): Promise<Uint8Array | null> {
    while (!this.done) {
      const piece = await this.#body.read();
      if (piece === null) {
        if (this.#state !== "over") throw this.#signatures().denied("chunks");
        this.done = true;
        return this.#last;
      }
      const out = this.#push(piece);
      if (out.length > 0) return out;
    }
    return null;
  }

  /** Gives the room of held chunks back. */
  release(): void {
    this.#budget.bytes -= this.#reserved;
    this.#reserved = 0;
  }

  #push(piece: Uint8Array): Uint8Array {
    this.#unread = this.#unread.length === 0 ? piece : joinBytes([this.#unread, piece]);
    const out: Uint8Array[] = [];
    while (this.#step(out));
    // A piece is valid until the next read.
    this.#unread = this.#unread.slice();
    return out.length === 0 ? NO_BYTES : joinBytes(out);
  }

  /** @returns false where more bytes are needed */
  #step(out: Uint8Array[]): boolean {
    switch (this.#state) {
      case "line":
        return this.#readLine(out);
      case "data":
        return this.#readData(out);
      case "break":
        return this.#readBreak();
      case "trailers":
        return this.#readTrailers();
      case "over":
        if (this.#unread.length > 0) throw this.#signatures().denied("chunks");
        return false;
    }
  }

  #readLine(out: Uint8Array[]): boolean {
    const signatures = this.#signatures();
    const end = this.#unread.indexOf(LF);
    if (end > CHUNK_LINE_MAX || end < 0 && this.#unread.length > CHUNK_LINE_MAX) {
      throw signatures.denied("chunks");
    }
    if (end < 0) return false;
    const line = decodeLatin1(this.#unread.subarray(0, end + 1));
    const [, text, signature = ""] = (signatures.isSigned ? SIGNED_LINE : PLAIN_LINE)
      .exec(line.slice(0, -BREAK.length)) ?? [];
    if (!line.endsWith(BREAK) || text === undefined) throw signatures.denied("chunks");
    this.#unread = this.#unread.subarray(end + 1);
    const size = parseInt(text, 16);
    this.#total += size;
    if (this.#total > (signatures.length ?? Infinity)) throw signatures.denied("chunks");
    this.#signature = signature;
    this.#hash = createHash("sha256");
    if (size === 0) {
      this.#endData(text, out);
      this.#state = "trailers";
      return true;
    }
    if (signatures.isSigned) this.#reserve(size);
    this.#chunks.push({ text, size, left: size, checked: !signatures.isSigned });
    this.#remaining = size;
    this.#state = "data";
    return true;
  }

  /** A signature stands before its chunk, so the chunk is held. */
  #reserve(size: number): void {
    if (size > BUFFERED_BODY_MAX || !this.#budget.take(size)) throw this.#signatures().denied("room");
    this.#reserved += size;
  }

  #readData(out: Uint8Array[]): boolean {
    if (this.#unread.length === 0) return false;
    const taken = this.#unread.subarray(0, this.#remaining);
    this.#unread = this.#unread.subarray(taken.length);
    this.#remaining -= taken.length;
    if (this.#signatures().isSigned) this.#hash.update(taken);
    this.#hold(this.#filter ? this.#filter.push(taken) : taken);
    if (this.#remaining === 0) {
      this.#check();
      this.#chunks.at(-1)!.checked = true;
      this.#state = "break";
    }
    this.#sendHeld(out);
    return true;
  }

  #check(): void {
    const signatures = this.#signatures();
    if (!signatures.isSigned) return;
    if (!signatures.isNext(this.#hash.digest("hex"), this.#signature)) throw signatures.denied("signature");
  }

  #readBreak(): boolean {
    if (this.#unread.length < BREAK.length) return false;
    if (this.#unread[0] !== CR || this.#unread[1] !== LF) throw this.#signatures().denied("chunks");
    this.#unread = this.#unread.subarray(BREAK.length);
    this.#state = "line";
    return true;
  }

  /** The chunk without bytes: all held bytes have to fit the chunks before it. */
  #endData(text: string, out: Uint8Array[]): void {
    const signatures = this.#signatures();
    this.#check();
    if (this.#total !== (signatures.length ?? this.#total)) throw signatures.denied("chunks");
    if (this.#filter) this.#hold(this.#filter.end());
    this.#sendHeld(out);
    if (this.#chunks.length > 0 || this.#heldCount > 0) throw signatures.denied("chunks");
    this.#last = this.#lineOf(text, NO_BYTES);
  }

  /** Lines up to an empty one. Some clients end a trailer with a line feed before the line break. */
  #readTrailers(): boolean {
    const signatures = this.#signatures();
    const text = decodeLatin1(this.#unread.subarray(0, TRAILERS_MAX));
    const isEmpty = text.startsWith(BREAK);
    const end = isEmpty ? 0 : text.indexOf(BREAK + BREAK);
    if (end < 0 || text.length < BREAK.length) {
      if (this.#unread.length >= TRAILERS_MAX) throw signatures.denied("chunks");
      return false;
    }
    const block = text.slice(0, end);
    const length = isEmpty ? BREAK.length : end + 2 * BREAK.length;
    this.#unread = this.#unread.subarray(length);
    const sent = this.#trailersOf(block) + text.slice(end, length);
    this.#last = joinBytes([this.#last, new TextEncoder().encode(sent)]);
    this.#state = "over";
    return true;
  }

  /** The lines of trailers as they are sent. */
  #trailersOf(block: string): string {
    const signatures = this.#signatures();
    if (!signatures.hasTrailers && block !== "") throw signatures.denied("chunks");
    const lines = block.split(/\r\n|\n/).filter((line) => line !== "");
    const isSigned = signatures.isSigned && signatures.hasTrailers;
    const [, signature] = isSigned ? TRAILER_SIGNATURE.exec(lines.pop() ?? "") ?? [] : [];
    if (isSigned && signature === undefined) throw signatures.denied("chunks");
    const fields = lines.map((line) => TRAILER_LINE.exec(line));
    const names = fields.map((field) => field?.[1].toLowerCase() ?? "");
    // Each that was announced, once.
    if (names.toSorted().join() !== signatures.trailers.toSorted().join()) throw signatures.denied("chunks");
    if (signature === undefined) return block;
    const text = fields.map((field, at) => `${names[at]}:${field![2]}\n`).join("");
    if (!signatures.isOfTrailers(text, signature)) throw signatures.denied("signature");
    return block.replace(signature, signatures.signTrailers(text));
  }

  #hold(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#held.push(bytes.slice());
    this.#heldCount += bytes.length;
  }

  /** Sends the chunks that are complete; of chunks without signatures, all held bytes. */
  #sendHeld(out: Uint8Array[]): void {
    const { isSigned } = this.#signatures();
    while (this.#chunks.length > 0) {
      const chunk = this.#chunks[0];
      const isWhole = this.#heldCount >= chunk.left;
      if (!chunk.checked || this.#heldCount === 0 || isSigned && !isWhole) return;
      const bytes = this.#takeHeld(Math.min(chunk.left, this.#heldCount));
      if (chunk.left === chunk.size) out.push(this.#lineOf(chunk.text, bytes));
      out.push(bytes);
      chunk.left -= bytes.length;
      if (chunk.left > 0) return;
      this.#chunks.shift();
      if (isSigned) {
        this.#budget.bytes -= chunk.size;
        this.#reserved -= chunk.size;
      }
    }
  }

  #takeHeld(count: number): Uint8Array {
    const whole = joinBytes(this.#held.splice(0));
    this.#heldCount = whole.length - count;
    if (this.#heldCount > 0) this.#held.push(whole.subarray(count));
    return whole.subarray(0, count);
  }

  /** The end of the chunk before, and the beginning of one. */
  #lineOf(text: string, data: Uint8Array): Uint8Array {
    const signatures = this.#signatures();
    const signature = signatures.isSigned
      ? `;chunk-signature=${signatures.sign(createHash("sha256").update(data).digest("hex"))}`
      : "";
    const line = `${this.#begun ? BREAK : ""}${text}${signature}${BREAK}`;
    this.#begun = true;
    return new TextEncoder().encode(line);
  }
}
