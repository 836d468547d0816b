/** Standard output and error of this process. Linux only. */
import { O_CLOEXEC } from "./flags.ts";

const O_WRONLY = 1, O_CREAT = 0o100, O_APPEND = 0o2000;
const MODE = 0o600;
const STDOUT = 1, STDERR = 2;

/** Sends both to the end of a file from now on. @throws {Error} the file cannot be opened */
export function redirectOutput(path: string): void {
  const libc = Deno.dlopen("libc.so.6", {
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    dup2: { parameters: ["i32", "i32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
  const { open, dup2, close } = libc.symbols;
  const fd = open(new TextEncoder().encode(`${path}\0`), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, MODE);
  if (fd < 0) throw new Error(`cannot open ${path}`);
  for (const stream of [STDOUT, STDERR]) dup2(fd, stream);
  close(fd);
  libc.close();
}
