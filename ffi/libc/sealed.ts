/** Files in memory that not even root can change. Linux 3.17 or later. */

const MFD_CLOEXEC = 1, MFD_ALLOW_SEALING = 2;
const F_ADD_SEALS = 1033;
const F_SEAL_SEAL = 1, F_SEAL_SHRINK = 2, F_SEAL_GROW = 4, F_SEAL_WRITE = 8;
const ALL = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

/**
 * Makes a file that holds a text for good. Root with its descriptor opens it for
 * writing, and fails at the first byte.
 *
 * @param name shown in /proc
 * @returns its descriptor; open while the process lives
 * @throws {Error} the kernel gives no such file
 */
export function sealedFile(name: string, text: string): number {
  const libc = Deno.dlopen("libc.so.6", {
    memfd_create: { parameters: ["buffer", "u32"], result: "i32" },
    fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  });
  try {
    const fd = libc.symbols.memfd_create(
      new TextEncoder().encode(`${name}\0`),
      MFD_CLOEXEC | MFD_ALLOW_SEALING,
    );
    if (fd < 0) throw new Error("the kernel gives no anonymous file");
    const path = `/proc/self/fd/${fd}`;
    Deno.writeTextFileSync(path, text);
    Deno.chmodSync(path, 0o444);
    if (libc.symbols.fcntl(fd, F_ADD_SEALS, ALL) !== 0) throw new Error("the kernel seals no anonymous file");
    return fd;
  } finally {
    libc.close();
  }
}
