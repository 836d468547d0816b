/** What libc knows of a connection and Deno does not say: where its program meant to go, and how to break it off. */
import type { Endpoint } from "./endpoint.ts";

const AF_UNSPEC = 0;
const SOL_IP = 0;
const SOL_IPV6 = 41;
/** the same number in both families */
const SO_ORIGINAL_DST = 80;

const libc = Deno.dlopen("libc.so.6", {
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
});

/** Where a redirected connection was meant to go; `undefined` when it was not redirected. */
export function originalDestination(conn: Deno.TcpConn): Endpoint | undefined {
  const fd = descriptorOf(conn);
  if (fd === undefined) return undefined;
  const isV6 = conn.localAddr.hostname.includes(":");
  // struct sockaddr_in: family, port, address; sockaddr_in6 has its flow before the address
  const address = new Uint8Array(28);
  const size = new Uint8Array(new Uint32Array([address.length]).buffer);
  const level = isV6 ? SOL_IPV6 : SOL_IP;
  if (libc.symbols.getsockopt(fd, level, SO_ORIGINAL_DST, address, size) !== 0) return undefined;
  const port = address[2] << 8 | address[3];
  const hostname = isV6 ? textOfV6(address.subarray(8, 24)) : address.subarray(4, 8).join(".");
  return { hostname, port };
}

/**
 * Closes a connection so that its program gets an error (RST), and not the end of an answer. Deno's close ends it in
 * order first, whatever SO_LINGER says; a connect to nowhere breaks it off.
 */
export function reset(conn: Deno.TcpConn): void {
  const fd = descriptorOf(conn);
  // struct sockaddr with a family and nothing more
  const nowhere = new Uint8Array(16).fill(AF_UNSPEC);
  if (fd !== undefined) libc.symbols.connect(fd, nowhere, nowhere.length);
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

function textOfV6(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, i) => (bytes[i * 2] << 8 | bytes[i * 2 + 1]).toString(16));
  return groups.join(":");
}
