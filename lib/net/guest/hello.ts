/** The name that a TLS client asks for, read from its ClientHello (RFC 8446 §4.1.2, RFC 6066 §3). */
import { MessageFault } from "../fault.ts";
import { HELLO_MAX } from "../limit.ts";

/** What a ClientHello says. */
export interface Hello {
  /** lower case, without the last dot; absent when the client names none, as for an address */
  name?: string;
}

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
/** Longest fragment of a record (RFC 8446 §5.1). */
const RECORD_MAX = 1 << 14;

/**
 * Reads the ClientHello that `bytes` begins with, however it is cut into records; `undefined` when more bytes are
 * needed.
 *
 * @throws {MessageFault} when it is none, is longer than {@linkcode HELLO_MAX}, or names a server in a way that could
 * be read in two ways
 */
export function parseHello(bytes: Uint8Array): Hello | undefined {
  const message = handshake(bytes);
  if (!message) return undefined;
  try {
    return helloOf(new Cursor(message));
  } catch (error) {
    if (error instanceof RangeError) throw new MessageFault("its ClientHello is cut short inside");
    throw error;
  }
}

/** The first handshake message, put together from its records. */
function handshake(bytes: Uint8Array): Uint8Array | undefined {
  let message = new Uint8Array();
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes[at + 3] << 8 | bytes[at + 4];
    if (bytes[at] !== HANDSHAKE || bytes[at + 1] !== 3) {
      throw new MessageFault("its first record is no handshake");
    }
    if (length === 0 || length > RECORD_MAX) throw new MessageFault("a record has an impossible length");
    if (at + 5 + length > bytes.length) break;
    const joined = new Uint8Array(message.length + length);
    joined.set(message);
    joined.set(bytes.subarray(at + 5, at + 5 + length), message.length);
    message = joined;
    at += 5 + length;
    if (message[0] !== CLIENT_HELLO) throw new MessageFault("its first message is no ClientHello");
    if (message.length < 4) continue;
    const wanted = 4 + (message[1] << 16 | message[2] << 8 | message[3]);
    if (wanted > HELLO_MAX) throw tooLong();
    if (message.length >= wanted) return message.subarray(4, wanted);
  }
  if (bytes.length > HELLO_MAX) throw tooLong();
  return undefined;
}

function tooLong(): MessageFault {
  return new MessageFault(`its ClientHello is longer than ${HELLO_MAX} bytes`);
}

function helloOf(hello: Cursor): Hello {
  // Version, random; session id, cipher suites, compression methods.
  hello.take(2 + 32);
  hello.take(hello.uint8());
  hello.take(hello.uint16());
  hello.take(hello.uint8());
  if (hello.left === 0) return {};
  const extensions = new Cursor(hello.take(hello.uint16()));
  let name: string | undefined;
  while (extensions.left > 0) {
    const type = extensions.uint16();
    const data = new Cursor(extensions.take(extensions.uint16()));
    if (type !== SERVER_NAME) continue;
    if (name !== undefined) throw new MessageFault("its ClientHello names a server twice");
    name = serverName(data);
  }
  return name === undefined ? {} : { name };
}

function serverName(data: Cursor): string {
  const list = new Cursor(data.take(data.uint16()));
  const type = list.uint8();
  const bytes = list.take(list.uint16());
  if (type !== 0 || list.left > 0 || data.left > 0) {
    throw new MessageFault("its ClientHello names a server in an unknown way");
  }
  const name = String.fromCharCode(...bytes).toLowerCase().replace(/\.$/, "");
  if (!isHostName(name)) throw new MessageFault("its ClientHello names a server that cannot be one");
  return name;
}

/** Whether text may be a host's name (no address): labels of letters, digits, `-` and `_`, at most 253 bytes. */
export function isHostName(text: string): boolean {
  return text.length <= 253 &&
    /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/.test(text);
}

/** Reads numbers and pieces; a `RangeError` when there are not as many bytes. */
class Cursor {
  #at = 0;

  constructor(readonly bytes: Uint8Array) {}

  get left(): number {
    return this.bytes.length - this.#at;
  }

  take(count: number): Uint8Array {
    if (count > this.left) throw new RangeError();
    return this.bytes.subarray(this.#at, this.#at += count);
  }

  uint8(): number {
    return this.take(1)[0];
  }

  uint16(): number {
    const [high, low] = this.take(2);
    return high << 8 | low;
  }
}
