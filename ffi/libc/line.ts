/** Writes a line to a terminal or a pipe, without ever waiting. Linux only. */
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

/** Targets of descriptors of terminals and pipes, as the kernel names them. */
const TERMINAL_OR_PIPE = /^(?:pipe:|\/dev\/(?:pts|tty|console))/;

/**
 * Writes a line if a path leads to a terminal or a pipe; the line is lost if that is full or has no reader. A
 * file belongs to the program, which may lack the right to write it. A descriptor can lead to another file at
 * any moment, so the file is held first, then checked and opened through the held descriptor.
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
