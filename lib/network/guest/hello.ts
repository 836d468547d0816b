/** Server name of a TLS client, parsed from its ClientHello (RFC 8446 §4.1.2, RFC 6066 §3). */
import { canonicalHost } from "../../base/address/mod.ts";
import { MessageFault } from "../fault.ts";
import { HELLO_MAX } from "../limit.ts";

/** Parsed part of a ClientHello. */
export interface ClientHello {
  /** server name, canonical; absent for clients that connect to an address */
  name?: string;
}

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
/** Longest fragment of a record in `bytes` (RFC 8446 §5.1). */
const RECORD_MAX = 1 << 14;

/**
 * Parses the ClientHello at the beginning of `bytes`, in any number of records; `undefined` while it is incomplete.
 *
 * @throws {MessageFault} for another message, one longer than {@linkcode HELLO_MAX}, and an ambiguous server name
 */
export function parseHello(bytes: Uint8Array): ClientHello | undefined {
  const joined = joinHandshake(bytes);
  if (!joined) return undefined;
  try {
    return parseBody(new Cursor(joined.message));
  } catch (error) {
    if (error instanceof RangeError) throw new MessageFault("a truncated ClientHello");
    throw error;
  }
}

/** Length of the records at the beginning of `bytes` that have the ClientHello. @throws {MessageFault} as {@linkcode parseHello} */
export function helloLength(bytes: Uint8Array): number | undefined {
  return joinHandshake(bytes)?.end;
}

/** Joins the first handshake message from its records, without the message's head. @returns `end` is that of the records */
function joinHandshake(bytes: Uint8Array): { message: Uint8Array; end: number } | undefined {
  let message = new Uint8Array();
  for (let at = 0; at + 5 <= bytes.length;) {
    const fragment = bytes[at + 3] << 8 | bytes[at + 4];
    if (bytes[at] !== HANDSHAKE || bytes[at + 1] !== 3) {
      throw new MessageFault("the first TLS record is not a handshake");
    }
    if (fragment === 0 || fragment > RECORD_MAX) throw new MessageFault("an invalid TLS record length");
    if (at + 5 + fragment > bytes.length) break;
    const joined = new Uint8Array(message.length + fragment);
    joined.set(message);
    joined.set(bytes.subarray(at + 5, at + 5 + fragment), message.length);
    message = joined;
    at += 5 + fragment;
    if (message[0] !== CLIENT_HELLO) {
      throw new MessageFault("the first handshake message is not a ClientHello");
    }
    if (message.length < 4) continue;
    const length = 4 + (message[1] << 16 | message[2] << 8 | message[3]);
    if (length > HELLO_MAX) throw tooLongFault();
    if (message.length >= length) return { message: message.subarray(4, length), end: at };
  }
  if (bytes.length > HELLO_MAX) throw tooLongFault();
  return undefined;
}

function tooLongFault(): MessageFault {
  return new MessageFault(`the ClientHello is longer than ${HELLO_MAX} bytes`);
}

function parseBody(hello: Cursor): ClientHello {
  // Version, random; session id, cipher suites, compression methods.
  hello.take(2 + 32);
  hello.take(hello.uint8());
  hello.take(hello.uint16());
  hello.take(hello.uint8());
  if (hello.remaining === 0) return {};
  const extensions = new Cursor(hello.take(hello.uint16()));
  let name: string | undefined;
  while (extensions.remaining > 0) {
    const type = extensions.uint16();
    const data = new Cursor(extensions.take(extensions.uint16()));
    if (type !== SERVER_NAME) continue;
    if (name !== undefined) throw new MessageFault("more than one server name in the ClientHello");
    name = readServerName(data);
  }
  return name === undefined ? {} : { name };
}

function readServerName(data: Cursor): string {
  const list = new Cursor(data.take(data.uint16()));
  const type = list.uint8();
  const bytes = list.take(list.uint16());
  if (type !== 0 || list.remaining > 0 || data.remaining > 0) {
    throw new MessageFault("an unknown form of server name in the ClientHello");
  }
  const text = String.fromCharCode(...bytes).toLowerCase().replace(/\.$/, "");
  // An address in another spelling would get a certificate for a name that no client asked for.
  if (canonicalHost(text) !== text) throw new MessageFault("an invalid server name in the ClientHello");
  return text;
}

/** Reads numbers and pieces. @throws {RangeError} past the end */
class Cursor {
  #at = 0;

  constructor(readonly bytes: Uint8Array) {}

  get remaining(): number {
    return this.bytes.length - this.#at;
  }

  take(count: number): Uint8Array {
    if (count > this.remaining) throw new RangeError();
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
