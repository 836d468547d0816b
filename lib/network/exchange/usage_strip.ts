/** Takes the counts out of a stream whose client did not ask for them: some fail on their event, which has no choices. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { ByteBuffer, NO_BYTES } from "../message/byte_buffer.ts";

/** Longest event that is held, in `bytes`; the counts have some hundred. */
const EVENT_MAX = 64 * 1024;
const LF = 10;
const CR = 13;

export class UsageStrip {
  /** of the event that is not complete */
  #held: Uint8Array = NO_BYTES;
  /** the event is longer than any event with counts: it passes as it arrives */
  #isLong = false;

  /** True for content types of event streams. */
  isOf(contentType: string): boolean {
    return /^text\/event-stream\b/i.test(contentType);
  }

  /** @returns the bytes that may pass, in a buffer of their own */
  push(bytes: Uint8Array): Uint8Array {
    const all = joinBytes([this.#held, bytes]);
    const passing = new ByteBuffer();
    let start = 0;
    for (let end = eventEnd(all, start); end >= 0; end = eventEnd(all, start)) {
      const event = all.subarray(start, end);
      if (this.#isLong || !isCounts(event)) passing.add(event);
      this.#isLong = false;
      start = end;
    }
    this.#held = all.slice(start);
    if (this.#isLong || this.#held.length > EVENT_MAX) {
      this.#isLong = true;
      // The last bytes may be the beginning of its end.
      const cut = Math.max(0, this.#held.length - 3);
      passing.add(this.#held.subarray(0, cut));
      this.#held = this.#held.slice(cut);
    }
    return passing.bytes.slice();
  }

  /** @returns the rest of a stream that ended within an event */
  end(): Uint8Array {
    const rest = this.#held;
    this.#held = NO_BYTES;
    return !this.#isLong && isCounts(rest) ? NO_BYTES : rest;
  }
}

/** Offset behind the blank line that ends an event; -1 without one. */
function eventEnd(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2;
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3;
  }
  return -1;
}

/** True for the event that has counts and nothing else. */
function isCounts(event: Uint8Array): boolean {
  if (event.length > EVENT_MAX) return false;
  const data = new TextDecoder().decode(event).split(/\r?\n/).filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5)).join("\n");
  try {
    const value = JSON.parse(data);
    return isObject(value) && Array.isArray(value.choices) && value.choices.length === 0 &&
      isObject(value.usage);
  } catch {
    return false;
  }
}
