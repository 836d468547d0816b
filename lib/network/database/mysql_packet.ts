/** Packets of the MySQL and MariaDB protocol: frames, numbers, texts and errors, read and written. */
import { joinBytes } from "../../base/bytes/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";

/** `bytes` of a packet's head: three of its length, one of its sequence number. */
export const PACKET_HEAD = 4;
/** Longest body of a packet, in `bytes`; a message of this length or more continues in the next packet. */
export const PACKET_MAX = 0xff_ffff;

/** Bits of the capabilities that this code reads or sets. */
export const CAPABILITY = {
  MYSQL: 1,
  CONNECT_WITH_DB: 1 << 3,
  PROTOCOL_41: 1 << 9,
  SSL: 1 << 11,
  TRANSACTIONS: 1 << 13,
  SECURE_CONNECTION: 1 << 15,
  PLUGIN_AUTH: 1 << 19,
  CONNECT_ATTRS: 1 << 20,
  PLUGIN_AUTH_LENENC: 1 << 21,
  DEPRECATE_EOF: 1 << 24,
} as const;

/**
 * Capabilities with which sbx can read the messages of both sides. Left out are compression, files of the
 * client, parameters before a statement, and further authentication factors.
 */
export const FOLLOWED = [
  0, // LONG_PASSWORD, or of MariaDB: no extended capabilities
  1, // FOUND_ROWS
  2, // LONG_FLAG
  3, // CONNECT_WITH_DB
  4, // NO_SCHEMA
  6, // ODBC
  8, // IGNORE_SPACE
  9, // PROTOCOL_41
  10, // INTERACTIVE
  12, // IGNORE_SIGPIPE
  13, // TRANSACTIONS
  14, // RESERVED
  15, // SECURE_CONNECTION
  16, // MULTI_STATEMENTS
  17, // MULTI_RESULTS
  18, // PS_MULTI_RESULTS
  19, // PLUGIN_AUTH
  20, // CONNECT_ATTRS
  21, // PLUGIN_AUTH_LENENC
  22, // CAN_HANDLE_EXPIRED_PASSWORDS
  23, // SESSION_TRACK
  24, // DEPRECATE_EOF
].reduce((bits, bit) => bits | 1 << bit, 0);
/** The same of MariaDB's extended capabilities: bulk execution and extended metadata. */
export const FOLLOWED_MARIADB = 1 << 2 | 1 << 3;

/** Status flags of the server at the end of a result. */
export const STATUS = { MORE_RESULTS: 0x8, CURSOR: 0x40, NO_BACKSLASH_ESCAPES: 0x200 } as const;

/** Head of a packet. */
export interface PacketHead {
  length: number;
  sequence: number;
}

/** Waits for the head of the next packet, without taking it; `undefined` at the end of the connection. */
export async function nextPacket(connection: BufferedConnection): Promise<PacketHead | undefined> {
  while (connection.count < PACKET_HEAD) {
    if (await connection.fill()) continue;
    if (connection.count > 0) throw new MessageFault("half a packet");
    return undefined;
  }
  const { unread } = connection;
  return { length: unread[0] | unread[1] << 8 | unread[2] << 16, sequence: unread[3] };
}

/**
 * Takes a whole packet.
 *
 * @param max most `bytes` of its body
 * @returns a copy of its body
 * @throws {ConnectionLost} the connection ended first
 * @throws {MessageFault} the packet is too long, or out of order
 */
export async function takePacket(
  connection: BufferedConnection,
  sequence: number,
  max: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const head = await nextPacket(connection);
  if (!head) throw new ConnectionLost("closed the connection");
  requireSequence(head, sequence);
  if (head.length > max) throw new MessageFault(`a packet of more than ${max} bytes`);
  await need(connection, PACKET_HEAD + head.length);
  const body = connection.unread.slice(PACKET_HEAD, PACKET_HEAD + head.length);
  connection.skip(PACKET_HEAD + head.length);
  return body;
}

/** Waits until `count` bytes are unread. @throws {ConnectionLost} the connection ended first */
export async function need(connection: BufferedConnection, count: number): Promise<void> {
  while (connection.count < count) {
    if (!await connection.fill()) throw new ConnectionLost("closed the connection");
  }
}

/** @throws {MessageFault} the packet has another sequence number */
export function requireSequence(head: PacketHead, sequence: number): void {
  if (head.sequence !== (sequence & 0xff)) throw new MessageFault("a packet out of order");
}

/** Encodes a packet. @param parts texts are not terminated */
export function packet(sequence: number, ...parts: (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const body = parts.map((part) => typeof part === "string" ? new TextEncoder().encode(part) : part);
  const length = body.reduce((sum, part) => sum + part.length, 0);
  return new Uint8Array(joinBytes([packetHead({ length, sequence }), ...body]));
}

export function packetHead({ length, sequence }: PacketHead): Uint8Array<ArrayBuffer> {
  return new Uint8Array([length & 0xff, length >>> 8 & 0xff, length >>> 16, sequence & 0xff]);
}

/** Encodes an ERR packet. @param state SQLSTATE */
export function errorPacket(sequence: number, code: number, state: string, text: string) {
  return packet(sequence, new Uint8Array([0xff, code & 0xff, code >>> 8]), `#${state}`, text);
}

/** An ERR packet of a server. */
export interface ServerError {
  code: number;
  /** SQLSTATE, or `HY000` where it has none */
  state: string;
  text: string;
}

export function readError(body: Uint8Array): ServerError {
  const text = new TextDecoder().decode(body.subarray(3));
  const [, state, rest] = /^#([0-9A-Z]{5})(.*)$/s.exec(text) ?? [];
  return { code: body[1] | body[2] << 8, state: state ?? "HY000", text: rest ?? text };
}

/** Encodes a number, lowest byte first. */
export function uint(value: number, bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Array.from({ length: bytes }, (_, at) => Math.floor(value / 2 ** (8 * at)) & 0xff));
}

/** Encodes a text or bytes behind their length. */
export function counted(part: string | Uint8Array): Uint8Array {
  const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
  const { length } = bytes;
  const head = length < 0xfb
    ? [length]
    : length < 0x1_0000
    ? [0xfc, ...uint(length, 2)]
    : [0xfd, ...uint(length, 3)];
  return joinBytes([new Uint8Array(head), bytes]);
}

/** Status flags in an OK packet. @throws {MessageFault} a packet that ends early */
export function okStatus(body: Uint8Array): number {
  const reader = new PacketReader(body, 1);
  reader.count();
  reader.count();
  return reader.uint(2);
}

/** Reads the body of a packet, part by part. @throws {MessageFault} a packet that ends early */
export class PacketReader {
  constructor(readonly body: Uint8Array, public at = 0) {}

  get left(): number {
    return this.body.length - this.at;
  }

  bytes(count: number): Uint8Array {
    if (count > this.left) throw new MessageFault("a packet that is cut short");
    return this.body.subarray(this.at, this.at += count);
  }

  uint(bytes: number): number {
    return this.bytes(bytes).reduceRight((value, byte) => value * 256 + byte, 0);
  }

  /** A number of one to nine bytes. */
  count(): number {
    const first = this.uint(1);
    if (first < 0xfb) return first;
    if (first === 0xfc) return this.uint(2);
    if (first === 0xfd) return this.uint(3);
    if (first === 0xfe) return this.uint(8);
    throw new MessageFault("a false number");
  }

  /** A text that ends in NUL, or with the packet. */
  text(): string {
    const end = this.body.indexOf(0, this.at);
    const bytes = this.bytes((end < 0 ? this.body.length : end) - this.at);
    if (end >= 0) this.at++;
    return decode(bytes);
  }

  /** Bytes behind their length. */
  counted(): Uint8Array {
    return this.bytes(this.count());
  }
}

/** Decodes a name. Names are compared as text, so invalid UTF-8 is refused: two names may look the same. */
export function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new MessageFault("a name that is not UTF-8");
  }
}
