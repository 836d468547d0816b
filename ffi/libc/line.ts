/** A line for whoever reads a terminal or a pipe, which never waits. Linux only. */
import { O_CLOEXEC, O_PATH } from "./flags.ts";
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

/** Places of terminals and pipes, as the kernel names what is open. */
const TERMINAL_OR_PIPE = /^(?:pipe:|\/dev\/(?:pts|tty|console))/;

/**
 * Writes a line where a path leads to a terminal or a pipe; it is lost where that is full, or has no reader. A file is the
 * program's, and may be one that it must not write: its descriptor leads to another one at any moment, so what is looked at is
 * held first, and what is held is opened.
 */
export function writeLine(path: string, line: string): void {
  libc ??= loadLibc();
  const held = libc.open(cString(path), O_PATH | O_CLOEXEC);
  if (held < 0) return;
  try {
    const place = `/proc/self/fd/${held}`;
    if (!TERMINAL_OR_PIPE.test(Deno.readLinkSync(place)) || Deno.statSync(place).isFile) return;
    const fd = libc.open(cString(place), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    const bytes = new TextEncoder().encode(`${line}\n`);
    libc.write(fd, bytes, BigInt(bytes.length));
    libc.close(fd);
  } finally {
    libc.close(held);
  }
}
