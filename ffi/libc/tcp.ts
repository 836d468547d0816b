/** Operations on TCP connections that Deno lacks. Linux only. */
import { loadFunctions } from "./load.ts";

const AF_UNSPEC = 0;
const SOL_IP = 0;
const SOL_IPV6 = 41;
/** Same number in both families. */
const SO_ORIGINAL_DST = 80;
/** Size of struct sockaddr_in6, the longer of the two, in `bytes`. */
const ADDRESS_BYTES = 28;

function loadLibc() {
  return loadFunctions({
    getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
    connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/**
 * Destination of a connection before the kernel redirected it, as struct sockaddr_in or sockaddr_in6;
 * `undefined` when it was not redirected.
 */
export function originalAddress(fd: number, isV6: boolean): Uint8Array<ArrayBuffer> | undefined {
  libc ??= loadLibc();
  const address = new Uint8Array(ADDRESS_BYTES);
  const size = new Uint8Array(new Uint32Array([address.length]).buffer);
  const level = isV6 ? SOL_IPV6 : SOL_IP;
  return libc.getsockopt(fd, level, SO_ORIGINAL_DST, address, size) === 0 ? address : undefined;
}

/** Resets a connection (RST) with a connect to AF_UNSPEC, so that its other end gets an error. */
export function resetConnection(fd: number): void {
  libc ??= loadLibc();
  // struct sockaddr with only a family
  const address = new Uint8Array(16).fill(AF_UNSPEC);
  libc.connect(fd, address, address.length);
}
