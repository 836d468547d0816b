/** Messages of PostgreSQL's protocol, version 3: their frames, and the ones that the host writes itself. */
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { LOGIN_MESSAGE_MAX } from "./limit.ts";

export const SSL_REQUEST = 80877103;
export const GSS_REQUEST = 80877104;
export const CANCEL_REQUEST = 80877102;

/** Length of a message's head: its type, and a length that counts itself. */
export const HEAD = 5;

/** Head of a message. */
export interface MessageHead {
  /** one letter */
  type: string;
  /** length of its body, in `bytes` */
  length: number;
}

/** Waits for the head of the next message, and leaves it unread; `undefined` at the end of the connection. */
export async function nextHead(connection: BufferedConnection): Promise<MessageHead | undefined> {
  while (connection.count < HEAD) {
    if (await connection.fill()) continue;
    if (connection.count > 0) throw new MessageFault("half a message");
    return undefined;
  }
  return headOf(connection);
}

function headOf({ unread }: BufferedConnection): MessageHead {
  const length = uint32(unread, 1) - 4;
  if (length < 0) throw new MessageFault("a message with a false length");
  return { type: String.fromCharCode(unread[0]), length };
}

/** Takes a whole message. @returns a copy of it with its head */
export async function takeMessage(
  connection: BufferedConnection,
  { type, length }: MessageHead,
  max: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (length > max) throw new MessageFault(`a message ${type} of more than ${max} bytes`);
  return await take(connection, HEAD + length);
}

/** Takes so many bytes. @throws {ConnectionLost} at an earlier end */
export async function take(connection: BufferedConnection, count: number): Promise<Uint8Array<ArrayBuffer>> {
  await need(connection, count);
  const bytes = connection.unread.slice(0, count);
  connection.skip(count);
  return bytes;
}

async function need(connection: BufferedConnection, count: number): Promise<void> {
  while (connection.count < count) {
    if (!await connection.fill()) throw new ConnectionLost("closed the connection");
  }
}

/** The first message of a client, whose kind is a number. */
export interface StartupPacket {
  code: number;
  /** the whole packet */
  bytes: Uint8Array<ArrayBuffer>;
}

/** Takes a message without a type. @returns `undefined` at the end of the connection */
export async function takeStartup(connection: BufferedConnection): Promise<StartupPacket | undefined> {
  while (connection.count < 8) {
    if (!await connection.fill()) return undefined;
  }
  const length = uint32(connection.unread, 0);
  if (length < 8 || length > LOGIN_MESSAGE_MAX) throw new MessageFault("a false length of the first message");
  const code = uint32(connection.unread, 4);
  return { code, bytes: await take(connection, length) };
}

/** Parameters of a StartupMessage. @throws {MessageFault} */
export function startupParameters(bytes: Uint8Array): Map<string, string> {
  const parameters = new Map<string, string>();
  let at = 8;
  const next = () => {
    const end = bytes.indexOf(0, at);
    if (end < 0) throw new MessageFault("a false StartupMessage");
    const text = utf8(bytes.subarray(at, end));
    at = end + 1;
    return text;
  };
  for (let name = next(); name !== ""; name = next()) {
    if (parameters.has(name)) throw new MessageFault("a StartupMessage that names a parameter twice");
    parameters.set(name, next());
  }
  if (at !== bytes.length) throw new MessageFault("a false StartupMessage");
  return parameters;
}

/** A request that is a number alone. */
export function request(code: number): Uint8Array<ArrayBuffer> {
  const packet = new Uint8Array(8);
  const view = new DataView(packet.buffer);
  view.setUint32(0, 8);
  view.setUint32(4, code);
  return packet;
}

/** Writes a message. @param parts texts get no end of their own */
export function message(type: string, ...parts: (string | Uint8Array | number)[]): Uint8Array<ArrayBuffer> {
  const encoded = parts.map((part) => {
    if (typeof part === "string") return new TextEncoder().encode(part);
    if (typeof part !== "number") return part;
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, part);
    return bytes;
  });
  const length = encoded.reduce((sum, part) => sum + part.length, 0);
  const whole = new Uint8Array(HEAD + length);
  whole[0] = type.charCodeAt(0);
  new DataView(whole.buffer).setUint32(1, 4 + length);
  let at = HEAD;
  for (const part of encoded) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** ErrorResponse. @param state SQLSTATE */
export function errorMessage(
  severity: "ERROR" | "FATAL",
  state: string,
  text: string,
  hint?: string,
): Uint8Array<ArrayBuffer> {
  const fields = [`S${severity}`, `V${severity}`, `C${state}`, `M${text}`, ...(hint ? [`H${hint}`] : [])];
  return message("E", fields.map((field) => `${field.replaceAll("\0", " ")}\0`).join(""), "\0");
}

/** Fields of an ErrorResponse or NoticeResponse, by their letters. */
export function errorFields(body: Uint8Array): Map<string, string> {
  const text = new TextDecoder().decode(body);
  return new Map(text.split("\0").filter((field) => field !== "").map((field) => [field[0], field.slice(1)]));
}

export const SYNC = message("S");

/** A text that ends in NUL. @returns it, and the place behind it @throws {MessageFault} */
export function textAt(bytes: Uint8Array, at: number): [text: string, end: number] {
  const end = bytes.indexOf(0, at);
  if (end < 0) throw new MessageFault("a text without an end");
  return [latin1(bytes.subarray(at, end)), end + 1];
}

/** Names are compared byte by byte. */
function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

export function utf8(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

export function uint32(bytes: Uint8Array, at: number): number {
  return (bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3]) >>> 0;
}
