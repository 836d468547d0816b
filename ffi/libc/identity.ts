/** New random numbers for the kernel of a machine that is a copy. Linux only. */
import { O_CLOEXEC } from "./flags.ts";
import { loadFunctions } from "./load.ts";

const O_WRONLY = 1;
const RNDADDENTROPY = 0x40085203;
const RNDRESEEDCRNG = 0x5207;

function loadLibc() {
  return loadFunctions({
    open: { parameters: ["buffer", "i32"], result: "i32" },
    ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/**
 * Gives the kernel a seed that it counts in full, and has it draw new keys at once, for every processor.
 *
 * @throws {Error} the kernel refuses, which it does for anyone but root
 */
export function reseedKernel(seed: Uint8Array): void {
  libc ??= loadLibc();
  const fd = libc.open(new TextEncoder().encode("/dev/urandom\0"), O_WRONLY | O_CLOEXEC);
  if (fd < 0) throw new Error("/dev/urandom cannot be opened");
  try {
    // struct rand_pool_info: bits of entropy, bytes of the seed, the seed.
    const pool = new Uint8Array(8 + seed.length);
    const head = new DataView(pool.buffer);
    head.setInt32(0, seed.length * 8, true);
    head.setInt32(4, seed.length, true);
    pool.set(seed, 8);
    if (libc.ioctl(fd, BigInt(RNDADDENTROPY), pool) !== 0) throw new Error("the kernel takes no seed");
    if (libc.ioctl(fd, BigInt(RNDRESEEDCRNG), null) !== 0) throw new Error("the kernel draws no new keys");
  } finally {
    libc.close(fd);
  }
}
