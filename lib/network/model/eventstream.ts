/**
 * Messages of AWS's binary event streams (`application/vnd.amazon.eventstream`), from arbitrarily split
 * bytes: lengths with a checksum, headers, a payload, and a checksum of all.
 */
import { crc32 } from "node:zlib";
import { parseJson } from "../../base/json/mod.ts";
import { framingOf, type Json, objectOf, ValueReader } from "./json.ts";
import { JSON_DEPTH_MAX, LINE_MAX } from "./limit.ts";

/** Reads the JSON values of a response. Not usable after it has thrown. */
export interface Values {
  push(bytes: Uint8Array): void;
  end(): void;
}

/** Creates the reader of a response's values by its content type. */
export function valuesOf(contentType: string | undefined, onValue: (value: unknown) => void): Values {
  const isBinary = /^application\/vnd\.amazon\.eventstream\b/i.test(contentType ?? "");
  return isBinary ? new EventStream(onValue) : new ValueReader(framingOf(contentType), onValue);
}

/** `bytes` of the lengths and their checksum, and of the checksum at the end. */
const PRELUDE = 12;
const TRAILER = 4;
/** Sizes of header values by their type; -1 for those that begin with a length of two bytes. */
const VALUE_SIZES = [0, 0, 1, 2, 4, 8, -1, -1, 8, 16];
const TEXT = 7;

const utf8 = new TextDecoder("utf-8", { fatal: true });

class EventStream implements Values {
  readonly #onValue: (value: unknown) => void;
  /** bytes of the unfinished message, in a buffer that grows by doubling */
  #buffer = new Uint8Array(1024);
  #size = 0;
  /** length of the unfinished message once its prelude is here */
  #length = 0;

  constructor(onValue: (value: unknown) => void) {
    this.#onValue = onValue;
  }

  /**
   * @throws {RangeError} a limit is exceeded
   * @throws {SyntaxError} a damaged message, or one whose JSON is invalid
   */
  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      const wanted = (this.#length || PRELUDE) - this.#size;
      const part = bytes.subarray(at, at + wanted);
      this.#append(part);
      at += part.length;
      if (part.length < wanted) return;
      if (this.#length === 0) this.#length = lengthOf(this.#buffer.subarray(0, PRELUDE));
      else {
        const message = this.#buffer.subarray(0, this.#size);
        this.#size = this.#length = 0;
        const value = readMessage(message);
        if (value !== undefined) this.#onValue(value);
      }
    }
  }

  /** @throws {SyntaxError} the stream ended within a message */
  end(): void {
    if (this.#size > 0) throw new SyntaxError("ended within a message");
  }

  #append(part: Uint8Array): void {
    const size = this.#size + part.length;
    if (size > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(size, this.#buffer.length * 2));
      larger.set(this.#buffer.subarray(0, this.#size));
      this.#buffer = larger;
    }
    this.#buffer.set(part, this.#size);
    this.#size = size;
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function lengthOf(prelude: Uint8Array): number {
  const view = viewOf(prelude);
  if (view.getUint32(8) !== crc32(prelude.subarray(0, 8))) throw new SyntaxError("a damaged prelude");
  const length = view.getUint32(0);
  if (length > LINE_MAX) throw new RangeError(`longer than ${LINE_MAX} bytes`);
  if (length < PRELUDE + view.getUint32(4) + TRAILER) throw new SyntaxError("lengths that contradict");
  return length;
}

/** Value of a message: of a chunk its content, else the payload under the name of its event. */
function readMessage(message: Uint8Array): Json | undefined {
  const view = viewOf(message), end = message.length - TRAILER;
  if (view.getUint32(end) !== crc32(message.subarray(0, end))) throw new SyntaxError("a damaged message");
  const body = PRELUDE + view.getUint32(4);
  const headers = headersOf(message.subarray(PRELUDE, body));
  const kind = headers.get(":message-type");
  if (kind !== "event") {
    return { exception: headers.get(":exception-type") ?? headers.get(":error-code") ?? "error" };
  }
  const payload = objectOf(jsonOf(utf8.decode(message.subarray(body, end))));
  const type = headers.get(":event-type") ?? "";
  if (type !== "chunk") return { [type]: payload };
  if (typeof payload.bytes !== "string") return undefined;
  return objectOf(jsonOf(utf8.decode(Uint8Array.fromBase64(payload.bytes))));
}

function jsonOf(text: string): unknown {
  return text === "" ? undefined : parseJson(text, JSON_DEPTH_MAX);
}

/** Texts among the headers. */
function headersOf(bytes: Uint8Array): Map<string, string> {
  const headers = new Map<string, string>();
  const view = viewOf(bytes);
  for (let at = 0; at < bytes.length;) {
    const nameEnd = at + 1 + view.getUint8(at);
    const type = view.getUint8(nameEnd);
    const size = VALUE_SIZES[type];
    if (size === undefined) throw new SyntaxError("a header of an unknown type");
    const start = nameEnd + 1 + (size < 0 ? 2 : 0);
    const end = start + (size < 0 ? view.getUint16(nameEnd + 1) : size);
    if (end > bytes.length) throw new SyntaxError("a header longer than the headers");
    if (type === TEXT) {
      headers.set(utf8.decode(bytes.subarray(at + 1, nameEnd)), utf8.decode(bytes.subarray(start, end)));
    }
    at = end;
  }
  return headers;
}
