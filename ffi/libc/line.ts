/** A line for whoever reads a file, which never waits. Linux only. */
import { O_CLOEXEC } from "./flags.ts";
import { cString } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";

const O_WRONLY = 1, O_NOCTTY = 0o400, O_NONBLOCK = 0o4000;

let libc: ReturnType<typeof loadLibc> | undefined;

function loadLibc() {
  return loadFunctions({
    open: { parameters: ["buffer", "i32"], result: "i32" },
    write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

/** Writes a line into a terminal or a pipe; it is lost where that is full, or nobody reads it. */
export function writeLine(path: string, line: string): void {
  libc ??= loadLibc();
  const fd = libc.open(cString(path), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  const bytes = new TextEncoder().encode(`${line}\n`);
  libc.write(fd, bytes, BigInt(bytes.length));
  libc.close(fd);
}
