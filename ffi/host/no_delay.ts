/**
 * TCP_NODELAY for the connections of a listener: Deno sets it neither for TLS servers nor on their
 * connections.
 */
import { loadFunctions } from "../libc/load.ts";
import { DARWIN } from "../posix/platform.ts";

const IPPROTO_TCP = 6, TCP_NODELAY = 1;
/** Size of `struct sockaddr_in`, and the places of port and address in it, on both systems. */
const ADDRESS_BYTES = 16, PORT_AT = 2, HOST_AT = 4;
/** Standard streams come first; the listener was made just now, and has one of the lower free numbers. */
const FIRST = 3, LAST = 65_536;

const FUNCTIONS = {
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
} as const;

function loadLibc() {
  return Deno.build.os === "linux"
    ? loadFunctions(FUNCTIONS)
    : Deno.dlopen(DARWIN.library, FUNCTIONS).symbols;
}

let loaded: ReturnType<typeof loadLibc> | undefined;

/**
 * Lets a listener on an address of IPv4, and each connection that it accepts from now on, send each write at
 * once: otherwise a second small one waits for the other end's acknowledgement, which it delays by 40 ms.
 *
 * @returns false if its socket was not found
 */
export function sendAtOnce({ hostname, port }: Deno.NetAddr): boolean {
  const libc = loaded ??= loadLibc();
  const wanted = [port >> 8, port & 255, ...hostname.split(".").map(Number)];
  const address = new Uint8Array(ADDRESS_BYTES);
  const size = new Uint32Array(1);
  for (let fd = FIRST; fd < LAST; fd++) {
    size[0] = ADDRESS_BYTES;
    if (libc.getsockname(fd, address, new Uint8Array(size.buffer)) !== 0) continue;
    if (wanted.some((byte, at) => address[(at < 2 ? PORT_AT : HOST_AT - 2) + at] !== byte)) continue;
    return libc.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, new Uint8Array(new Int32Array([1]).buffer), 4) === 0;
  }
  return false;
}
