/**
 * A client of WebSockets (RFC 6455) over a Unix socket, TCP or TLS. Node 20 has none, and the ones of
 * Deno and Bun take no Unix socket.
 */
import { createHash, randomBytes } from "node:crypto";
import { connect as connectPlain, type Socket } from "node:net";
import { connect as connectSecure } from "node:tls";
import type { Endpoint } from "./address.ts";
import { answerError, SbxError } from "./error.ts";
import { API_VERSION, SDK_VERSION } from "./version.ts";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Longest head of an answer, and longest message, in `bytes`. */
const HEAD_MAX = 64 * 1024, MESSAGE_MAX = 64 * 1024 * 1024;
/** `bytes` of messages that wait for their reader before the connection stops reading. */
const BACKLOG = 4 * 1024 * 1024;
const CONTINUATION = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;

/** The end of a socket: its code and reason; 1006 where the connection broke. */
export interface SocketEnd {
  code: number;
  reason: string;
}

/** A WebSocket whose messages are read one after another: text as string, binary as bytes. */
export class WebSocketClient implements AsyncIterable<string | Uint8Array> {
  readonly #socket: Socket;
  #rest: Buffer;
  #parts: Buffer[] = [];
  #partsBytes = 0;
  #partsType = 0;
  #waiting: { message: string | Uint8Array; size: number }[] = [];
  #waitingBytes = 0;
  #end: SocketEnd | undefined;
  #news = deferred();

  private constructor(socket: Socket, rest: Buffer) {
    this.#socket = socket;
    this.#rest = rest;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("close", () => this.#finish({ code: 1006, reason: "the connection broke" }));
    this.#take(Buffer.alloc(0));
    if (socket.destroyed) this.#finish({ code: 1006, reason: "the connection broke" });
    socket.resume();
  }

  /** The end of the socket, once it has ended. */
  get end(): SocketEnd | undefined {
    return this.#end;
  }

  /** @throws {SbxError} the error of the API; `gateway.unreachable` */
  static async open(endpoint: Endpoint, path: string): Promise<WebSocketClient> {
    const { socket: unix, secure, hostname, port, tls } = endpoint;
    const key = randomBytes(16).toString("base64");
    const token = endpoint.token();
    const host = unix
      ? "127.0.0.1"
      : hostname.includes(":")
      ? `[${hostname}]:${port}`
      : `${hostname}:${port}`;
    const head = [
      `GET ${path} HTTP/1.1`,
      `host: ${host}`,
      "connection: Upgrade",
      "upgrade: websocket",
      "sec-websocket-version: 13",
      `sec-websocket-key: ${key}`,
      `user-agent: sbx-sdk-typescript/${SDK_VERSION}`,
      `sbx-api-version: ${API_VERSION}`,
      ...(token === undefined ? [] : [`authorization: Bearer ${token}`]),
      "\r\n",
    ].join("\r\n");
    const socket = unix
      ? connectPlain(unix)
      : secure
      ? connectSecure({ host: hostname, port, servername: hostname, ...tls })
      : connectPlain(port, hostname);
    const at = unix ?? `${hostname}:${port}`;
    try {
      const answer = await firstAnswer(socket, head);
      if (answer.status !== 101) throw answerError(answer.status, answer.rest.toString("utf8"));
      const accept = createHash("sha1").update(key + GUID).digest("base64");
      if (answer.headers.get("sec-websocket-accept") !== accept) {
        throw new SbxError("gateway.bad_answer", `the server at ${at} opened no WebSocket`);
      }
      return new WebSocketClient(socket, answer.rest);
    } catch (cause) {
      socket.destroy();
      if (cause instanceof SbxError) throw cause;
      throw new SbxError("gateway.unreachable", `no answer at ${at}`, { cause, hint: "start it: sbx start" });
    }
  }

  /** Sends a message. @returns when the connection takes more */
  async send(message: string | Uint8Array): Promise<void> {
    const payload = typeof message === "string" ? Buffer.from(message) : Buffer.from(message);
    await this.#write(typeof message === "string" ? TEXT : BINARY, payload);
  }

  /** Closes the socket; messages that were not read are dropped. */
  close(code = 1000): void {
    if (this.#end) return;
    const payload = Buffer.alloc(2);
    payload.writeUInt16BE(code);
    void this.#write(CLOSE, payload).catch(() => {});
    this.#finish({ code, reason: "" });
    this.#socket.end();
    this.#socket.unref();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string | Uint8Array> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next) {
        this.#waitingBytes -= next.size;
        if (this.#waitingBytes < BACKLOG) this.#socket.resume();
        yield next.message;
      } else if (this.#end) return;
      else {
        await this.#news.promise;
        this.#news = deferred();
      }
    }
  }

  #write(type: number, payload: Buffer): Promise<void> {
    if (this.#end) return Promise.reject(new SbxError("service.gone", "the connection has ended"));
    const mask = randomBytes(4);
    const long = payload.length > 0xffff;
    const head = Buffer.alloc(payload.length < 126 ? 2 : long ? 10 : 4);
    head[0] = 0x80 | type;
    head[1] = 0x80 | (payload.length < 126 ? payload.length : long ? 127 : 126);
    if (long) head.writeBigUInt64BE(BigInt(payload.length), 2);
    else if (payload.length >= 126) head.writeUInt16BE(payload.length, 2);
    const masked = Buffer.from(payload);
    for (let at = 0; at < masked.length; at++) masked[at]! ^= mask[at & 3]!;
    return new Promise((resolve, reject) =>
      this.#socket.write(Buffer.concat([head, mask, masked]), (error) => error ? reject(error) : resolve())
    );
  }

  #take(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (!this.#end) {
      const frame = frameOf(this.#rest);
      if (frame === "more") return;
      if (frame === "invalid") return this.#fail();
      this.#rest = this.#rest.subarray(frame.length);
      if (frame.type === PING) void this.#write(PONG, frame.payload).catch(() => {});
      else if (frame.type === CLOSE) {
        const code = frame.payload.length >= 2 ? frame.payload.readUInt16BE(0) : 1005;
        void this.#write(CLOSE, frame.payload).catch(() => {});
        this.#finish({ code, reason: frame.payload.subarray(2).toString("utf8") });
        this.#socket.end();
      } else if (frame.type !== PONG) this.#add(frame.type, frame.payload, frame.isLast);
    }
  }

  #add(type: number, payload: Buffer, isLast: boolean): void {
    if (type !== CONTINUATION) this.#partsType = type;
    // Empty ones, which no limit of bytes would end, are not kept.
    if (payload.length > 0) this.#parts.push(payload);
    this.#partsBytes += payload.length;
    if (this.#partsBytes > MESSAGE_MAX) return this.#fail();
    if (!isLast) return;
    const whole = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partsBytes = 0;
    const message = this.#partsType === TEXT ? whole.toString("utf8") : new Uint8Array(whole);
    this.#waiting.push({ message, size: whole.length });
    this.#waitingBytes += whole.length;
    if (this.#waitingBytes > BACKLOG) this.#socket.pause();
    this.#news.resolve();
  }

  #fail(): void {
    this.#finish({ code: 1002, reason: "the server sent no valid frame" });
    this.#socket.destroy();
  }

  #finish(end: SocketEnd): void {
    this.#end ??= end;
    this.#news.resolve();
  }
}

interface Frame {
  type: number;
  isLast: boolean;
  payload: Buffer;
  /** of the whole frame, in `bytes` */
  length: number;
}

/** The frame at the begin of the bytes. Frames of a server are not masked. */
function frameOf(bytes: Buffer): Frame | "more" | "invalid" {
  if (bytes.length < 2) return "more";
  const [first, second] = [bytes[0]!, bytes[1]!];
  if (second & 0x80 || first & 0x70) return "invalid";
  const short = second & 0x7f;
  const head = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < head) return "more";
  const size = short === 126
    ? bytes.readUInt16BE(2)
    : short === 127
    ? Number(bytes.readBigUInt64BE(2))
    : short;
  if (size > MESSAGE_MAX) return "invalid";
  if (bytes.length < head + size) return "more";
  const payload = bytes.subarray(head, head + size);
  return { type: first & 0x0f, isLast: (first & 0x80) !== 0, payload, length: head + size };
}

interface FirstAnswer {
  status: number;
  headers: Map<string, string>;
  /** bytes behind the head: frames, or the body of an error */
  rest: Buffer;
}

/** Sends the head of a request. An answer without an upgrade is read to its end. */
function firstAnswer(socket: Socket, head: string): Promise<FirstAnswer> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    let answer: FirstAnswer | undefined;
    const done = (result: FirstAnswer) => {
      // Deno reads on before the next listener is there, and these bytes would be lost.
      socket.pause();
      socket.removeAllListeners("data").removeAllListeners("error").removeAllListeners("close");
      // Errors come as the end of the connection.
      socket.on("error", () => {});
      resolve(result);
    };
    const whole = () => {
      const length = Number(answer!.headers.get("content-length") ?? NaN);
      return Number.isNaN(length) ? answer!.rest.includes("\r\n0\r\n\r\n") : answer!.rest.length >= length;
    };
    const finish = () => {
      if (answer?.headers.get("transfer-encoding") === "chunked") answer.rest = unchunked(answer.rest);
      if (answer) done(answer);
      else reject(new Error("the connection broke"));
    };
    socket.once("error", reject);
    socket.once("close", finish);
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      const end = answer ? 0 : bytes.indexOf("\r\n\r\n");
      if (!answer && end < 0) {
        if (bytes.length > HEAD_MAX) reject(new Error("too long a head"));
        return;
      }
      if (answer) answer.rest = Buffer.concat([answer.rest, chunk]);
      else {
        const [line = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
        const headers = new Map(lines.map((each) => {
          const colon = each.indexOf(":");
          return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()];
        }));
        answer = { status: Number(line.split(" ")[1]), headers, rest: bytes.subarray(end + 4) };
      }
      if (answer.status === 101) done(answer);
      else if (whole() || answer.rest.length > HEAD_MAX) finish();
    });
    socket.write(head);
  });
}

function unchunked(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let rest = bytes;;) {
    const line = rest.indexOf("\r\n");
    const size = line < 0 ? 0 : parseInt(rest.subarray(0, line).toString("latin1"), 16);
    if (!size) return Buffer.concat(parts);
    parts.push(rest.subarray(line + 2, line + 2 + size));
    rest = rest.subarray(line + 4 + size);
  }
}

interface Deferred {
  promise: Promise<void>;
  resolve(): void;
}

function deferred(): Deferred {
  let resolve = () => {};
  const promise = new Promise<void>((done) => resolve = done);
  return { promise, resolve };
}
