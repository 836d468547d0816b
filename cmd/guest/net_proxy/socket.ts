/** What the kernel knows of a connection and Deno does not say: where its program meant to go, and how to break it off. */
import { breakOff, originalAddress } from "../../../ffi/libc/tcp.ts";
import { type Endpoint, textOf } from "./endpoint.ts";

/** Where a redirected connection was meant to go; `undefined` when it was not redirected. */
export function originalDestination(conn: Deno.TcpConn): Endpoint | undefined {
  const fd = descriptorOf(conn);
  if (fd === undefined) return undefined;
  const isV6 = conn.localAddr.hostname.includes(":");
  // struct sockaddr_in: family, port, address; sockaddr_in6 has its flow before the address
  const address = originalAddress(fd, isV6);
  return address && {
    hostname: textOf(isV6 ? address.subarray(8, 24) : address.subarray(4, 8)),
    port: address[2] << 8 | address[3],
  };
}

/**
 * Closes a connection so that its program gets an error (RST), and not the end of an answer. Deno's close ends it in
 * order first, whatever SO_LINGER says.
 */
export function reset(conn: Deno.TcpConn): void {
  const fd = descriptorOf(conn);
  if (fd !== undefined) breakOff(fd);
  try {
    conn.close();
  } catch {
    // closed already: then the descriptor was not asked for
  }
}

/** Deno keeps the descriptor under a symbol of its own; the image's Deno is one fixed version, where it is there. */
function descriptorOf(conn: Deno.TcpConn): number | undefined {
  const symbol = Object.getOwnPropertySymbols(conn).find(({ description }) =>
    description === "Deno.internal.fd"
  );
  const fd = symbol && (conn as unknown as Record<symbol, unknown>)[symbol];
  return typeof fd === "number" ? fd : undefined;
}
