/** Options of this process's sockets, which Deno does not show. */
const LAST = 4096;
const IPPROTO_TCP = 6, TCP_NODELAY = 1;

/** Whether this process's socket with these ports sends small pieces at once; undefined: there is none. */
export function noDelayOf(own: Deno.Addr, other: Deno.Addr): boolean | undefined {
  const library = Deno.dlopen(Deno.build.os === "darwin" ? "/usr/lib/libSystem.B.dylib" : "libc.so.6", {
    getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
    getpeername: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
    getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  });
  const libc = library.symbols;
  const portBy = (call: typeof libc.getsockname, fd: number) => {
    const address = new Uint8Array(16);
    const size = new Uint8Array(new Uint32Array([address.length]).buffer);
    return call(fd, address, size) === 0 ? address[2] << 8 | address[3] : undefined;
  };
  const [ownPort, otherPort] = [own, other].map((end) => (end as Deno.NetAddr).port);
  try {
    for (let fd = 3; fd < LAST; fd++) {
      if (portBy(libc.getsockname, fd) !== ownPort || portBy(libc.getpeername, fd) !== otherPort) continue;
      const [value, size] = [new Int32Array(1), new Uint32Array([4])];
      libc.getsockopt(
        fd,
        IPPROTO_TCP,
        TCP_NODELAY,
        new Uint8Array(value.buffer),
        new Uint8Array(size.buffer),
      );
      return value[0] !== 0;
    }
    return undefined;
  } finally {
    library.close();
  }
}
