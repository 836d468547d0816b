/**
 * TCP connections through a proxy: CONNECT (RFC 9110 §9.3.6), also over TLS, and SOCKS5 (RFC 1928, RFC 1929).
 */
import { sendSmallAtOnce } from "../accept/mod.ts";
import { ignore, SbxError } from "../error/mod.ts";
import { parseAddress } from "../address/mod.ts";
import { closeQuietly, writeAll } from "../wire/mod.ts";
import type { Proxy, ProxyLogin } from "./settings.ts";

/** Longest head of a proxy's answer, in `bytes`. */
const HEAD_MAX = 16 * 1024;
const END = "\r\n\r\n";

/** A proxy that could not be asked. One that has answered, or is not logged in to, leads to no other way. */
export class ProxyUnreachable extends SbxError {}

/**
 * Connects to a host through a proxy.
 *
 * @param to name or address, and port, that the proxy connects to
 * @param login gives the value of `proxy-authorization` for a proxy
 * @throws {ProxyUnreachable} `network.proxy.failed`
 * @throws {SbxError} `network.proxy.failed`
 */
export async function connectThrough(
  proxy: Proxy,
  to: { hostname: string; port: number },
  login: ProxyLogin | undefined,
  caCerts: string[],
  signal?: AbortSignal,
): Promise<Deno.TcpConn> {
  const authority = `${to.hostname.includes(":") ? `[${to.hostname}]` : to.hostname}:${to.port}`;
  const { hostname, port } = proxy;
  let conn: Deno.TcpConn | Deno.TlsConn | undefined;
  const close = () => closeQuietly(conn);
  try {
    const tcp = await Deno.connect({ hostname, port, signal });
    conn = tcp;
    tcp.setNoDelay(true);
    signal?.addEventListener("abort", close);
    if (proxy.scheme === "socks5") {
      await socks(tcp, proxy, to, authority);
      return tcp;
    }
    if (proxy.scheme === "https") {
      const tls = await Deno.startTls(tcp, { hostname, caCerts });
      conn = tls;
      await tls.handshake();
    }
    const fields = [`CONNECT ${authority} HTTP/1.1`, `host: ${authority}`];
    const authorization = await login?.(proxy) ?? (proxy.user && basicOf(proxy.user));
    if (authorization) fields.push(`proxy-authorization: ${authorization}`);
    await writeAll(conn, new TextEncoder().encode(fields.join("\r\n") + END));
    const status = await readStatus(conn);
    if (status >= 200 && status < 300) return conn === tcp ? tcp : await bridged(conn);
    const hint = status === 407
      ? "it wants a login: network.upstream_proxy_auth_file, or network.upstream_proxy_auth_program for Kerberos"
      : "ask the administrator of the proxy; network.no_proxy names hosts that need none";
    throw failed(proxy, `refused a connection to ${authority} with ${status || "an invalid answer"}`, hint);
  } catch (cause) {
    close();
    if (cause instanceof SbxError || signal?.aborted) throw cause;
    if (!conn) {
      throw new ProxyUnreachable("network.proxy.failed", `the proxy ${hostname}:${port} cannot be reached`, {
        cause,
        hint: "check network.upstream_proxy, or HTTPS_PROXY of the service",
      });
    }
    const isTls = cause instanceof Deno.errors.InvalidData;
    throw failed(
      proxy,
      isTls ? "has a certificate that this machine does not trust, or speaks no TLS" : "ended the connection",
      isTls
        ? "name its authority's PEM file: network.extra_ca_file"
        : "check network.upstream_proxy, or HTTPS_PROXY of the service",
      cause,
    );
  } finally {
    signal?.removeEventListener("abort", close);
  }
}

/** Value of `proxy-authorization`. */
function basicOf({ username, password }: NonNullable<Proxy["user"]>): string {
  return `Basic ${new TextEncoder().encode(`${username}:${password}`).toBase64()}`;
}

/**
 * Reads the head of the answer and not a byte more: what follows is the host's, and TLS
 * begins on the bare connection.
 *
 * @returns the status; 0 for an invalid head
 */
async function readStatus(conn: Deno.Conn): Promise<number> {
  let head = "";
  const buffer = new Uint8Array(END.length);
  while (!head.endsWith(END)) {
    if (head.length > HEAD_MAX) return 0;
    const read = await conn.read(buffer.subarray(0, END.length - matched(head)));
    if (read === null) return 0;
    head += String.fromCharCode(...buffer.subarray(0, read));
  }
  return Number(head.match(/^HTTP\/1\.[01] (\d{3})[ \r]/)?.[1] ?? 0);
}

/** Characters of the end that the head already ends with. */
function matched(head: string): number {
  let count = END.length;
  while (!head.endsWith(END.slice(0, count))) count--;
  return count;
}

function failed({ hostname, port }: Proxy, what: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("network.proxy.failed", `the proxy ${hostname}:${port} ${what}`, { cause, hint });
}

// SOCKS5.

/** Methods of logins. */
const NO_LOGIN = 0, PASSWORD = 2;
/** Answers of RFC 1928 §6. */
const REPLIES = [
  "",
  "with a failure of its own",
  "by its rules",
  "since the network cannot be reached",
  "since the host cannot be reached",
  "since the host refused it",
  "since it took too long",
  "since it knows no CONNECT",
  "since it knows no such address",
];

async function socks(
  conn: Deno.TcpConn,
  proxy: Proxy,
  { hostname, port }: { hostname: string; port: number },
  authority: string,
): Promise<void> {
  const { user } = proxy;
  const wrong = "check network.upstream_proxy_auth_file";
  await writeAll(conn, Uint8Array.of(5, 1, user ? PASSWORD : NO_LOGIN));
  const [version, method] = await readBytes(conn, 2);
  if (version !== 5) throw failed(proxy, "does not speak SOCKS5", "check network.upstream_proxy");
  if (method !== (user ? PASSWORD : NO_LOGIN)) {
    throw failed(proxy, user ? "takes no password" : "wants a user and a password", wrong);
  }
  if (user) {
    const [name, password] = [user.username, user.password].map((text) => new TextEncoder().encode(text));
    if (name.length > 255 || password.length > 255) {
      throw failed(proxy, "takes at most 255 bytes of each", wrong);
    }
    await writeAll(conn, Uint8Array.of(1, name.length, ...name, password.length, ...password));
    if ((await readBytes(conn, 2))[1] !== 0) throw failed(proxy, "refused the user and password", wrong);
  }
  await writeAll(conn, Uint8Array.of(5, 1, 0, ...addressBytes(hostname), port >> 8, port & 255));
  const [, reply, , kind] = await readBytes(conn, 4);
  if (reply !== 0) {
    throw failed(
      proxy,
      `refused a connection to ${authority} ${REPLIES[reply] ?? "with an invalid answer"}`,
      "ask the administrator of the proxy; network.no_proxy names hosts that need none",
    );
  }
  // The address that the proxy connects from.
  const length = kind === 1 ? 4 : kind === 4 ? 16 : kind === 3 ? (await readBytes(conn, 1))[0] : undefined;
  if (length === undefined) throw failed(proxy, "gave an invalid answer", "check network.upstream_proxy");
  await readBytes(conn, length + 2);
}

/** Kind and bytes of an address or name. */
function addressBytes(hostname: string): number[] {
  const address = parseAddress(hostname);
  if (address) return [address.length === 4 ? 1 : 4, ...address];
  const name = new TextEncoder().encode(hostname);
  // Its length has one byte: the rest would be the port, and bytes for the host.
  if (name.length > 255) throw new Deno.errors.InvalidData("a name with more than 255 bytes");
  return [3, name.length, ...name];
}

async function readBytes(conn: Deno.Conn, count: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const read = await conn.read(bytes.subarray(at));
    if (read === null) throw new Deno.errors.UnexpectedEof("the proxy closed the connection");
    at += read;
  }
  return bytes;
}

// TLS inside of TLS.

/**
 * A connection of this process to itself that carries the bytes of another one: Deno begins TLS on TCP alone.
 * Only the connection that was made here is accepted, whatever else connects to the port meanwhile.
 */
async function bridged(far: Deno.Conn): Promise<Deno.TcpConn> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const near = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  const own = near.localAddr as Deno.NetAddr;
  for (;;) {
    const accepted = await listener.accept();
    const { port, hostname } = accepted.remoteAddr as Deno.NetAddr;
    if (port !== own.port || hostname !== own.hostname) {
      accepted.close();
      continue;
    }
    sendSmallAtOnce(accepted);
    pipeBoth(accepted, far);
    return near;
  }
}

/** Bytes that are carried at once. */
const CHUNK = 64 * 1024;

/**
 * Carries bytes both ways. The end of one direction is passed on, and the other goes on; both connections are
 * closed when both have ended, or one has failed.
 *
 * @param limit most `bytes` from `one` to `other`
 */
export function pipeBoth(one: Deno.Conn, other: Deno.Conn, limit = Infinity): void {
  Promise.all([carry(one, other, limit), carry(other, one)])
    .catch(ignore("one of both is gone, and the other is closed with it"))
    .finally(() => {
      closeQuietly(one);
      closeQuietly(other);
    });
}

async function carry(from: Deno.Conn, to: Deno.Conn, limit = Infinity): Promise<void> {
  const buffer = new Uint8Array(CHUNK);
  let left = limit;
  while (left > 0) {
    const read = await from.read(buffer.subarray(0, Math.min(CHUNK, left)));
    if (read === null) break;
    left -= read;
    await writeAll(to, buffer.subarray(0, read));
  }
  // A server may take the end of a request's bytes for the end of its client.
  if (limit === Infinity) await to.closeWrite();
}
