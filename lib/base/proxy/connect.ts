/** TCP connections through a proxy: CONNECT (RFC 9110 §9.3.6). */
import { SbxError } from "../error/mod.ts";
import { closeQuietly } from "../wire/mod.ts";
import type { Proxy } from "./settings.ts";

/** Longest head of a proxy's answer, in `bytes`. */
const HEAD_MAX = 16 * 1024;
const END = "\r\n\r\n";

/**
 * Connects to a host through a proxy.
 *
 * @param to name or address, and port, that the proxy connects to
 * @throws {SbxError} `network.proxy.failed`
 */
export async function connectThrough(
  proxy: Proxy,
  to: { hostname: string; port: number },
  signal?: AbortSignal,
): Promise<Deno.TcpConn> {
  const authority = `${to.hostname.includes(":") ? `[${to.hostname}]` : to.hostname}:${to.port}`;
  const { hostname, port } = proxy;
  let conn: Deno.TcpConn | undefined;
  const close = () => closeQuietly(conn);
  try {
    conn = await Deno.connect({ hostname, port, signal });
    signal?.addEventListener("abort", close);
    const fields = [`CONNECT ${authority} HTTP/1.1`, `host: ${authority}`];
    if (proxy.user) fields.push(`proxy-authorization: ${basicOf(proxy.user)}`);
    await writeAll(conn, new TextEncoder().encode(fields.join("\r\n") + END));
    const status = await readStatus(conn);
    if (status >= 200 && status < 300) return conn;
    const hint = status === 407
      ? "it wants a user and a password: network.upstream_proxy_auth_file, or in HTTPS_PROXY"
      : "ask the administrator of the proxy; network.no_proxy names hosts that need none";
    throw failed(proxy, `refused a connection to ${authority} with ${status || "an invalid answer"}`, hint);
  } catch (cause) {
    close();
    if (cause instanceof SbxError || signal?.aborted) throw cause;
    throw failed(
      proxy,
      "cannot be reached",
      "check network.upstream_proxy, or HTTPS_PROXY of the service",
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
 * Reads the head of the answer and not a byte more: what follows is the host's, and TLS begins on the bare connection.
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

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

function failed({ hostname, port }: Proxy, what: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("network.proxy.failed", `the proxy ${hostname}:${port} ${what}`, { cause, hint });
}
