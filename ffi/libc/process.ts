/** Other processes: their memory, and their terminals. Linux only. */
import { loadFunctions } from "./load.ts";
import { O_CLOEXEC, O_PATH } from "./flags.ts";
import { cString } from "./descriptor.ts";

const KCMP = Deno.build.arch === "x86_64" ? 312 : 272;
const KCMP_VM = 1;
/** Size of struct iovec, in `bytes`. */
const IOVEC_BYTES = 16;

let loaded: ReturnType<typeof loadLibc> | undefined;
const libc = () => loaded ??= loadLibc();

function loadLibc() {
  return loadFunctions({
    syscall: { parameters: ["i64", "i64", "i64", "i64", "i64", "i64"], result: "i64" },
    process_vm_readv: { parameters: ["i32", "buffer", "u64", "buffer", "u64", "u64"], result: "isize" },
  });
}

/** True for two processes with one memory, such as a child before its exec. */
export function sharesMemory(a: number, b: number): boolean {
  return Number(libc().syscall(BigInt(KCMP), BigInt(a), BigInt(b), BigInt(KCMP_VM), 0n, 0n)) === 0;
}

const local = new BigUint64Array(2), remote = new BigUint64Array(2);
const localBytes = new Uint8Array(local.buffer, 0, IOVEC_BYTES);
const remoteBytes = new Uint8Array(remote.buffer, 0, IOVEC_BYTES);

/** Reads the memory of a process. @returns the number of `bytes`, 0 where there is no memory */
export function readMemory(pid: number, at: bigint, into: Uint8Array<ArrayBuffer>): number {
  const size = BigInt(into.length);
  local.set([Deno.UnsafePointer.value(Deno.UnsafePointer.of(into)), size]);
  remote.set([at, size]);
  return Math.max(0, Number(libc().process_vm_readv(pid, localBytes, 1n, remoteBytes, 1n, 0n)));
}

const O_WRONLY = 1, O_NOCTTY = 0o400, O_NONBLOCK = 0o4000;

let writer: ReturnType<typeof loadWriter> | undefined;

function loadWriter() {
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
  writer ??= loadWriter();
  const held = writer.open(cString(path), O_PATH | O_CLOEXEC);
  if (held < 0) return;
  try {
    const place = `/proc/self/fd/${held}`;
    if (!TERMINAL_OR_PIPE.test(Deno.readLinkSync(place)) || Deno.statSync(place).isFile) return;
    const fd = writer.open(cString(place), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    const bytes = new TextEncoder().encode(`${line}\n`);
    writer.write(fd, bytes, BigInt(bytes.length));
    writer.close(fd);
  } finally {
    writer.close(held);
  }
}
