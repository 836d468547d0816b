import { PINGS_MAX } from "../limit.ts";

/**
 * Pings of one side on their way to the other. They travel with a number instead of their payload, and come back with
 * it: a payload could carry a secret past the search of messages.
 */
export class PingTable {
  readonly #payloads = new Map<number, Uint8Array>();
  #count = 0;

  /** Payload to send in place of one. */
  send(payload: Uint8Array): Uint8Array {
    const number = this.#count++ >>> 0;
    this.#payloads.set(number, payload);
    // The answer to the latest ping is enough (RFC 6455 §5.5.3).
    if (this.#payloads.size > PINGS_MAX) this.#payloads.delete(this.#payloads.keys().next().value!);
    const sent = new Uint8Array(4);
    new DataView(sent.buffer).setUint32(0, number);
    return sent;
  }

  /** Payload that a pong answers; `undefined` for a pong to no ping. */
  receive(payload: Uint8Array): Uint8Array | undefined {
    if (payload.length !== 4) return undefined;
    const number = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
    const sent = this.#payloads.get(number);
    this.#payloads.delete(number);
    return sent;
  }
}
