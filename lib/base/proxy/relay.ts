/**
 * A proxy of this process for itself: clients that know plain HTTP proxies alone reach any way through it.
 */
import { timingSafeEqual } from "@std/crypto";
import { sendSmallAtOnce } from "../accept/mod.ts";
import { asSbxError } from "../error/mod.ts";
import { log } from "../log/mod.ts";
import { timeLimit } from "../time/mod.ts";
import { closeQuietly, writeAll } from "../wire/mod.ts";
import { type Proxy, urlOf } from "./settings.ts";
import { pipeBoth } from "./tunnel.ts";

/** Longest head of a request, in `bytes`. */
const HEAD_MAX = 64 * 1024;
const END = "\r\n\r\n";
/**
 * Longest time for a head, in `ms`, and connections that may owe theirs: any user of this machine can open
 * some, and beyond them the oldest is closed. This process's own clients send theirs at once.
 */
const HEAD_MS = timeLimit(30_000), WAITING_MAX = 512;

/** Connects by whatever way leads there. */
export type Open = (
  scheme: "http" | "https",
  to: { hostname: string; port: number },
) => Promise<Deno.TcpConn>;

/**
 * The relay listens on loopback while its network is open. Only who has its
 * password, a random one, is served.
 */
export class Relay implements Disposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #password = crypto.getRandomValues(new Uint8Array(32)).toHex();
  readonly #open: Open;
  /** connections that owe a head, oldest first */
  readonly #waiting = new Set<Deno.TcpConn>();

  constructor(open: Open) {
    this.#open = open;
    // It keeps no process from its end.
    this.#listener.unref();
    this.#serve();
  }

  /** The relay, as a proxy. */
  get proxy(): Proxy {
    const { port } = this.#listener.addr;
    return {
      scheme: "http",
      hostname: "127.0.0.1",
      port,
      user: { username: "sbx", password: this.#password },
    };
  }

  /** With its password, for child processes. */
  get url(): string {
    return urlOf(this.proxy);
  }

  [Symbol.dispose](): void {
    this.#listener.close();
  }

  async #serve(): Promise<void> {
    try {
      for await (const conn of this.#listener) {
        const [oldest] = this.#waiting;
        if (this.#waiting.size >= WAITING_MAX) {
          this.#waiting.delete(oldest);
          closeQuietly(oldest);
        }
        this.#answer(conn).catch(() => closeQuietly(conn));
      }
    } catch { /* the relay was closed */ }
  }

  async #answer(conn: Deno.TcpConn): Promise<void> {
    this.#waiting.add(conn);
    sendSmallAtOnce(conn);
    const timer = setTimeout(() => closeQuietly(conn), HEAD_MS);
    Deno.unrefTimer(timer);
    const { head, rest } = await readHead(conn).finally(() => {
      clearTimeout(timer);
      this.#waiting.delete(conn);
    });
    const [line, ...fields] = head.split("\r\n");
    const [method, target] = line.split(" ");
    if (!this.#mayUse(fields)) return await refuse(conn, "407 Proxy Authentication Required");
    const url = URL.parse(method === "CONNECT" ? `https://${target}` : target ?? "");
    if (!url || !/^https?:$/.test(url.protocol)) return await refuse(conn, "400 Bad Request");
    const scheme = method === "CONNECT" ? "https" : "http";
    const port = Number(url.port || (scheme === "https" ? 443 : 80));
    let far: Deno.TcpConn;
    try {
      far = await this.#open(scheme, { hostname: url.hostname.replace(/^\[|\]$/g, ""), port });
    } catch (error) {
      log.warn(asSbxError(error, "the way to an upstream").message);
      return await refuse(conn, "502 Bad Gateway");
    }
    try {
      if (method === "CONNECT") await writeAll(conn, encode("HTTP/1.1 200 OK\r\n\r\n"));
      else {
        // One request a connection: the next may be another server's.
        const kept = fields.filter((field) => !/^(proxy-|connection:|keep-alive:)/i.test(field));
        const path = `${url.pathname}${url.search}`;
        await writeAll(
          far,
          latin1Bytes([`${method} ${path} HTTP/1.1`, ...kept, "connection: close"].join("\r\n") + END),
        );
      }
      await writeAll(far, method === "CONNECT" ? rest : rest.subarray(0, bodyLength(fields)));
    } catch (error) {
      closeQuietly(far);
      throw error;
    }
    // A client may send its next request, to another server, on this connection: it is not this one's.
    pipeBoth(conn, far, method === "CONNECT" ? undefined : bodyLength(fields) - rest.length);
  }

  #mayUse(fields: readonly string[]): boolean {
    const login = fields.map((field) => /^proxy-authorization: *basic +(\S+)$/i.exec(field)?.[1]).find(
      Boolean,
    );
    const own = encode(`sbx:${this.#password}`).toBase64();
    return login !== undefined && login.length === own.length && timingSafeEqual(encode(login), encode(own));
  }
}

/** Bytes of the body of a request; infinite for one in chunks. */
function bodyLength(fields: readonly string[]): number {
  if (fields.some((field) => /^transfer-encoding:/i.test(field))) return Infinity;
  const length = fields.map((field) => /^content-length: *(\d{1,15}) *$/i.exec(field)?.[1]).find(Boolean);
  return Number(length ?? 0);
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function latin1Bytes(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Not as TextDecoder has it, whose Latin-1 is Windows'. */
function latin1Text(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

async function refuse(conn: Deno.TcpConn, status: string): Promise<void> {
  try {
    await conn.write(encode(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`));
  } finally {
    closeQuietly(conn);
  }
}

/** The head of a request, and what came after it. Latin-1 keeps each byte. */
async function readHead(conn: Deno.TcpConn): Promise<{ head: string; rest: Uint8Array }> {
  const buffer = new Uint8Array(HEAD_MAX);
  for (let count = 0; count < HEAD_MAX;) {
    const read = await conn.read(buffer.subarray(count));
    if (read === null) break;
    // Searched are the new bytes with 3 before them: one at a time costs no more than all at once.
    const from = Math.max(0, count - END.length + 1);
    count += read;
    const at = latin1Text(buffer.subarray(from, count)).indexOf(END);
    if (at >= 0) {
      const end = from + at;
      return { head: latin1Text(buffer.subarray(0, end)), rest: buffer.slice(end + END.length, count) };
    }
  }
  throw new Deno.errors.InvalidData("no head of a request");
}
