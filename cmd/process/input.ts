import type { Caller } from "../../lib/session/ipc/mod.ts";

/**
 * Base64 characters of input that wait for a program (docs/design/contracts/14-limits.md §14); a whole
 * request with input has fewer.
 */
const WAITING_MAX = 16 * 1024 * 1024;

/**
 * Input of a call's program. It is read as it comes, whether or not the program takes it: a caller that goes away is
 * noticed by the end of its input alone.
 */
export class CallInput {
  readonly #caller: Caller;
  /** null is the end of the input */
  readonly #pieces: (string | null)[] = [];
  #waiting = 0;
  #changed = Promise.withResolvers<void>();
  /** `bytes` of the piece that was given out last */
  #given = 0;
  readonly #acks: boolean;

  /**
   * @param acks the caller is told what was taken
   * @param left aborts when the caller has gone away
   */
  constructor(caller: Caller, acks: boolean, left: AbortController) {
    this.#caller = caller;
    this.#acks = acks;
    this.#read().finally(() => {
      left.abort();
      this.#add(null);
    });
  }

  /** The next piece, base64; the one before was taken. @returns null at the end */
  async next(): Promise<string | null> {
    if (this.#acks && this.#given > 0) {
      await this.#caller.reply({ t: "Taken", bytes: this.#given }).catch(() => {});
    }
    while (this.#pieces.length === 0) await this.#changed.promise;
    const piece = this.#pieces.shift()!;
    // An end stays the end.
    if (piece === null) this.#pieces.unshift(null);
    this.#given = piece === null ? 0 : Uint8Array.fromBase64(piece).length;
    this.#waiting -= piece?.length ?? 0;
    this.#tell();
    return piece;
  }

  async #read(): Promise<void> {
    for (let input = await this.#caller.input(); input !== null; input = await this.#caller.input()) {
      this.#add(input.t === "Data" ? input.data : null);
      while (this.#waiting > WAITING_MAX) await this.#changed.promise;
    }
  }

  #add(piece: string | null): void {
    this.#pieces.push(piece);
    this.#waiting += piece?.length ?? 0;
    this.#tell();
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
