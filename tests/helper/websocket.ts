/**
 * WebSockets through the proxy of a guest: clients and upstreams that are real, and ones
 * that send exactly a test's bytes.
 */
import { createHash } from "node:crypto";
import { closeQuietly } from "../../lib/base/wire/mod.ts";
import type { TestNet } from "./net.ts";
import { type RawClient, rawUpstream } from "./net_client.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A frame as it is on the wire. */
export interface WireFrame {
  fin?: boolean;
  /** reserved bits, 0 to 7 */
  rsv?: number;
  opcode?: number;
  masked?: boolean;
  payload?: string | Uint8Array;
  /** bits of the length field: the shortest by default */
  lengthBits?: 7 | 16 | 64;
}

/** Bytes of a frame; a text message of its own by default. */
export function frameBytes(
  { fin = true, rsv = 0, opcode = 1, masked = false, payload = "", lengthBits }: WireFrame,
): Uint8Array {
  const data = typeof payload === "string" ? encoder.encode(payload) : payload;
  const bits = lengthBits ?? (data.length < 126 ? 7 : data.length < 65536 ? 16 : 64);
  const head = [(fin ? 0x80 : 0) | rsv << 4 | opcode];
  const mask = masked ? 0x80 : 0;
  if (bits === 7) head.push(mask | data.length);
  else {
    head.push(mask | (bits === 16 ? 126 : 127));
    for (let shift = bits - 8; shift >= 0; shift -= 8) head.push(Math.floor(data.length / 2 ** shift) & 255);
  }
  const key = masked ? [0x1f, 0x2e, 0x3d, 0x4c] : [];
  const body = masked ? data.map((byte, at) => byte ^ key[at & 3]) : data;
  return Uint8Array.from([...head, ...key, ...body]);
}

/** A frame of a guest: masked. */
export const guestFrame = (frame: WireFrame) => frameBytes({ masked: true, ...frame });

/** A received frame, unmasked. */
export interface ReceivedFrame {
  fin: boolean;
  /** reserved bits, 0 to 7 */
  rsv: number;
  opcode: number;
  masked: boolean;
  payload: string;
}

/** Reads one frame of a peer; the text of a payload, also of a binary one, has one character a byte. */
export async function readFrame(client: RawClient): Promise<ReceivedFrame> {
  const [first, second] = await client.takeBytes(2);
  const field = second & 127;
  const extended = field < 126 ? [] : [...await client.takeBytes(field === 126 ? 2 : 8)];
  const length = field < 126 ? field : extended.reduce((sum, byte) => sum * 256 + byte, 0);
  const masked = (second & 128) !== 0;
  const key = masked ? await client.takeBytes(4) : new Uint8Array(4);
  const data = (await client.takeBytes(length)).map((byte, at) => byte ^ key[at & 3]);
  const payload = Array.from(data, (byte) => String.fromCharCode(byte)).join("");
  return { fin: (first & 128) !== 0, rsv: first >> 4 & 7, opcode: first & 15, masked, payload };
}

/** Text of a message that may be fragmented; control frames before its end are dropped. */
export async function readMessage(client: RawClient): Promise<string> {
  let text = "";
  while (true) {
    const { fin, opcode, payload } = await readFrame(client);
    if (opcode >= 8) continue;
    text += payload;
    if (fin) return text;
  }
}

/** Code of a close frame, after frames that come before it. */
export async function readClose(client: RawClient): Promise<number> {
  while (true) {
    const { opcode, payload } = await readFrame(client);
    if (opcode === 8) return payload.length < 2 ? 1005 : payload.charCodeAt(0) * 256 + payload.charCodeAt(1);
  }
}

const KEY = "dGhlIHNhbXBsZSBub25jZQ==";

/** Head of an upgrade request. */
export function upgradeHead(host: string, path: string, more = ""): string {
  return `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n${more}\r\n`;
}

/** Opens a guest's WebSocket whose frames the test writes. @throws {Error} it was not upgraded */
export async function openRaw(net: TestNet, host: string, path = "/", more = ""): Promise<RawClient> {
  const client = await net.tls(host);
  const { status } = await client.ask(upgradeHead(host, path, more));
  if (status !== 101) throw new Error(`the upgrade was answered with ${status}`);
  return client;
}

/** What an upstream does after its upgrade, and header lines added to its answer. */
type ServeAndHeaders = [serve: (client: RawClient, head: string) => Promise<void>, more?: string];

/** An upstream that upgrades, keeps the heads of requests, and leaves the frames to the test. */
export function rawSocketUpstream(
  tls: { cert: string; key: string },
  ...[serve, more = ""]: ServeAndHeaders
) {
  const heads: string[] = [];
  const upstream = rawUpstream(async (client) => {
    const head = await client.until("\r\n\r\n");
    heads.push(head);
    const key = /sec-websocket-key: *(\S+)/i.exec(head)?.[1];
    if (key === undefined) {
      return await client.send("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n");
    }
    await client.send(
      `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n` +
        `sec-websocket-accept: ${acceptOf(key)}\r\n${more}\r\n`,
    );
    await serve(client, head);
  }, tls);
  return { ...upstream, heads };
}

/** Raw upstreams of one guest's WebSockets: its connections lead to the latest. */
export class RawUpstreams {
  #latest = { hostname: "", port: 0 };

  /** Address of the latest upstream, as the target of a {@linkcode TestNet}. */
  readonly target = () => this.#latest;

  async open(net: TestNet, host: string, ...rest: ServeAndHeaders) {
    const upstream = rawSocketUpstream(await net.leaf(host), ...rest);
    this.#latest = upstream.target;
    return upstream;
  }

  /** Opens an upstream and a guest's WebSocket to it, both with frames of the test. */
  async pair(net: TestNet, host: string, ...rest: ServeAndHeaders) {
    const upstream = await this.open(net, host, ...rest);
    return { upstream, guest: await openRaw(net, host) };
  }
}

function acceptOf(key: string): string {
  return createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
}

/** A server by Deno that upgrades each request. */
export function socketServer(
  tls: { cert: string; key: string },
  open: (socket: WebSocket, headers: Headers) => void,
) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, ...tls, onListen() {} } as never, (request) => {
    if (request.headers.get("upgrade") !== "websocket") return new Response("no upgrade", { status: 426 });
    const headers = new Headers(request.headers);
    const { socket, response } = Deno.upgradeWebSocket(request);
    open(socket, headers);
    return response;
  });
  const { port } = server.addr as unknown as Deno.NetAddr;
  return { target: { hostname: "127.0.0.1", port }, close: () => server.shutdown() };
}

/** A client by Deno, as a program of the guest. */
export interface GuestSocket {
  socket: WebSocket;
  /** received messages; text of binary ones */
  messages: string[];
  /** the close event */
  closed: Promise<CloseEvent>;
  /** Waits for a message beyond those of earlier calls. */
  next(): Promise<string>;
  dispose(): void;
}

/** Opens a WebSocket of the guest with Deno's client. @throws {Error} the upgrade failed */
export async function openSocket(
  net: TestNet,
  url: string,
  headers: Record<string, string> = {},
): Promise<GuestSocket> {
  const forward = net.forward(443);
  const tunnel = tunnelTo(forward.port);
  const client = Deno.createHttpClient({
    caCerts: [net.caCert],
    proxy: { url: `http://127.0.0.1:${tunnel.port}` },
  });
  const socket = new WebSocket(url, { client, headers } as never);
  socket.binaryType = "arraybuffer";
  const messages: string[] = [];
  const waiting: (() => void)[] = [];
  let seen = 0;
  socket.onmessage = ({ data }) => {
    messages.push(typeof data === "string" ? data : decoder.decode(data));
    waiting.shift()?.();
  };
  const { promise: closed, resolve: onClose } = Promise.withResolvers<CloseEvent>();
  let isDisposed = false;
  const dispose = () => {
    if (isDisposed) return;
    isDisposed = true;
    if (socket.readyState <= WebSocket.OPEN) socket.close();
    client.close();
    tunnel.close();
    forward.close();
  };
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = (event) => {
      dispose();
      reject(new Error((event as ErrorEvent).message));
    };
    socket.onclose = onClose;
  });
  socket.onerror = null;
  return {
    socket,
    messages,
    closed,
    dispose,
    async next() {
      while (messages.length <= seen) await new Promise<void>((resolve) => waiting.push(resolve));
      return messages[seen++];
    },
  };
}

/** A proxy for CONNECT that leads to one port, so that a client may keep its host's name. */
export function tunnelTo(port: number): { port: number; close(): void } {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const conns = new Set<Deno.Conn>();
  const serve = async (client: Deno.Conn) => {
    const buffer = new Uint8Array(4096);
    for (let head = ""; !head.endsWith("\r\n\r\n");) {
      const count = await client.read(buffer);
      if (count === null) return closeQuietly(client);
      head += decoder.decode(buffer.subarray(0, count));
    }
    const upstream = await Deno.connect({ hostname: "127.0.0.1", port });
    conns.add(upstream);
    await client.write(encoder.encode("HTTP/1.1 200 OK\r\n\r\n"));
    await Promise.allSettled([
      client.readable.pipeTo(upstream.writable),
      upstream.readable.pipeTo(client.writable),
    ]);
  };
  const accept = async () => {
    for await (const conn of listener) {
      conns.add(conn);
      serve(conn).catch(() => closeQuietly(conn));
    }
  };
  accept().catch(() => {});
  return {
    port: listener.addr.port,
    close() {
      listener.close();
      conns.forEach(closeQuietly);
    },
  };
}
