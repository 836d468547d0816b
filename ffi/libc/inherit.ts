/** Descriptors that programs get from their parent. Linux 5.11 or later. */
import { loadFunctions } from "./load.ts";

const CLOSE_RANGE_CLOEXEC = 4;
/** The first after the standard streams, and the last. */
const FIRST = 3;
const LAST = 0xffff_ffff;

let libc: ReturnType<typeof loadLibc> | undefined;

function loadLibc() {
  return loadFunctions({ close_range: { parameters: ["u32", "u32", "i32"], result: "i32" } });
}

/**
 * Keeps the programs that are started from here on from getting any open file but their standard streams. Deno opens vsock
 * connections without that.
 *
 * @throws {Error} the kernel cannot do it
 */
export function inheritNothing(): void {
  libc ??= loadLibc();
  if (libc.close_range(FIRST, LAST, CLOSE_RANGE_CLOEXEC) !== 0) {
    throw new Error("close_range failed: programs would get the agent's connections");
  }
}
