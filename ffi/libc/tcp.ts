/** What libc knows of a TCP connection and Deno does not say. Linux only. */

const AF_UNSPEC = 0;
const SOL_IP = 0;
const SOL_IPV6 = 41;
/** the same number in both families */
const SO_ORIGINAL_DST = 80;
/** bytes of struct sockaddr_in6, which is the longer one */
const ADDRESS_BYTES = 28;

function open() {
  return Deno.dlopen("libc.so.6", {
    getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
    connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  });
}

let libc: ReturnType<typeof open> | undefined;

/**
 * Where a connection was meant to go before the kernel led it elsewhere, as struct sockaddr_in or sockaddr_in6;
 * `undefined` when it was not led elsewhere.
 */
export function originalAddress(fd: number, isV6: boolean): Uint8Array<ArrayBuffer> | undefined {
  libc ??= open();
  const address = new Uint8Array(ADDRESS_BYTES);
  const size = new Uint8Array(new Uint32Array([address.length]).buffer);
  const level = isV6 ? SOL_IPV6 : SOL_IP;
  return libc.symbols.getsockopt(fd, level, SO_ORIGINAL_DST, address, size) === 0 ? address : undefined;
}

/** Breaks a connection off, so that its other end gets an error (RST): a connect to nowhere does that. */
export function breakOff(fd: number): void {
  libc ??= open();
  // struct sockaddr with a family and nothing more
  const nowhere = new Uint8Array(16).fill(AF_UNSPEC);
  libc.symbols.connect(fd, nowhere, nowhere.length);
}
