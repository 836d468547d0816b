/** Names in a folder as bytes: Deno's own listing leaves out names that are not UTF-8. Linux only. */
import { O_CLOEXEC, O_DIRECTORY } from "./flags.ts";

/** Offsets in struct linux_dirent64, in `bytes`: of its length, and of its name, which ends with NUL. */
const LENGTH_AT = 16;
const NAME_AT = 19;
const BUFFER_BYTES = 256 * 1024;

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    open: { parameters: ["buffer", "i32"], result: "i32" },
    getdents64: { parameters: ["i32", "buffer", "usize"], result: "isize", nonblocking: true },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/**
 * Yields the names in a folder, without `.` and `..`, in no order.
 * @throws {Error} the folder cannot be read
 */
export async function* readNames(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  libc ??= loadLibc();
  const fd = libc.symbols.open(new TextEncoder().encode(`${path}\0`), O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw new Error(`the folder ${path} cannot be opened`);
  try {
    const buffer = new Uint8Array(BUFFER_BYTES);
    const view = new DataView(buffer.buffer);
    while (true) {
      const count = Number(await libc.symbols.getdents64(fd, buffer, BigInt(buffer.length)));
      if (count < 0) throw new Error(`the folder ${path} cannot be read`);
      if (count === 0) return;
      for (let at = 0; at < count; at += view.getUint16(at + LENGTH_AT, true)) {
        const start = at + NAME_AT;
        const name = buffer.slice(start, buffer.indexOf(0, start));
        if (!isDots(name)) yield name;
      }
    }
  } finally {
    libc.symbols.close(fd);
  }
}

function isDots(name: Uint8Array): boolean {
  return name.length <= 2 && name.every((byte) => byte === 0x2e);
}
