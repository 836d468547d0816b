import { MessageFault } from "../../fault.ts";
import { HEAD_MAX } from "../../limit.ts";
import { END_STREAM, type Frame, FRAME_HEAD } from "./frame.ts";

/** A header block in the pieces of its frames. */
export class HeaderBlock {
  readonly stream: number;
  readonly endsStream: boolean;
  readonly #pieces: Uint8Array[] = [];
  #size = 0;

  /** @param frame the HEADERS frame */
  constructor({ stream, flags }: Frame) {
    this.stream = stream;
    this.endsStream = (flags & END_STREAM) !== 0;
  }

  /** @throws {MessageFault} the block is too long */
  add(piece: Uint8Array): void {
    this.#size += piece.length;
    // An empty piece counts as its frame head, or there could be endless empty pieces.
    if (this.#size + this.#pieces.length * FRAME_HEAD > HEAD_MAX) {
      throw new MessageFault("the response head is too long");
    }
    this.#pieces.push(piece.slice());
  }

  joined(): Uint8Array {
    const joined = new Uint8Array(this.#size);
    let at = 0;
    for (const piece of this.#pieces) {
      joined.set(piece, at);
      at += piece.length;
    }
    return joined;
  }
}
