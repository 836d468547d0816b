/** The memory of a process, and whether another process shares it. Linux only. */
import { loadFunctions } from "./load.ts";

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
