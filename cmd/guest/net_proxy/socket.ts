/** Operations on TCP connections that Deno lacks: the original destination, and a reset. */
import { originalAddress, resetConnection } from "../../../ffi/libc/tcp.ts";
import { formatAddress, type SocketAddress } from "./address.ts";

/** Original destination of a redirected connection; `undefined` when it was not redirected. */
export function originalDestination(conn: Deno.TcpConn): SocketAddress | undefined {
  const fd = descriptorOf(conn);
  if (fd === undefined) return undefined;
  const isV6 = conn.localAddr.hostname.includes(":");
  // struct sockaddr_in: family, port, address; in sockaddr_in6 the flow precedes the address
  const address = originalAddress(fd, isV6);
  return address && {
    hostname: formatAddress(isV6 ? address.subarray(8, 24) : address.subarray(4, 8)),
    port: address[2] << 8 | address[3],
  };
}

/**
 * Resets a connection (RST), so that its program gets an error instead of a truncated answer. Deno's close
 * always ends it in order, even with SO_LINGER.
 */
export function reset(conn: Deno.TcpConn): void {
  const fd = descriptorOf(conn);
  if (fd !== undefined) resetConnection(fd);
  try {
    conn.close();
  } catch {
    // already closed: then there was no descriptor either
  }
}

/**
 * Descriptor of a connection, which Deno stores under a private symbol; the image pins a Deno version that
 * has it.
 */
function descriptorOf(conn: Deno.TcpConn): number | undefined {
  const symbol = Object.getOwnPropertySymbols(conn).find(({ description }) =>
    description === "Deno.internal.fd"
  );
  const fd = symbol && (conn as unknown as Record<symbol, unknown>)[symbol];
  return typeof fd === "number" ? fd : undefined;
}
