/** The machine: its clock, random numbers, mounts and disks. Linux only; only root may change them. */
import { loadFunctions } from "./load.ts";
import { O_CLOEXEC } from "./flags.ts";

const CLOCK_REALTIME = 0;
/** struct timex: its size, and the places of its fields that are used, in `bytes`. */
const TIMEX_BYTES = 208, MODES = 0, OFFSET = 8, SECONDS = 72, PART = 80;
/** Modes of adjtimex(2): slow or hurry by `µs`, or add a time with `ns`. */
const ADJ_OFFSET_SINGLESHOT = 0x8001, ADJ_SETOFFSET = 0x0100, ADJ_NANO = 0x2000;
/** Largest shift that is made by slowing or hurrying the clock, in `ms`; the kernel does 0.5 ms a second. */
const SLEW_MAX_MS = 50;

function loadLibc() {
  return loadFunctions({
    clock_settime: { parameters: ["i32", "buffer"], result: "i32" },
    adjtimex: { parameters: ["buffer"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** @param epochMs milliseconds since 1970 @throws {Error} the kernel refuses */
export function setClock(epochMs: number): void {
  libc ??= loadLibc();
  const { seconds, ns } = split(epochMs);
  if (libc.clock_settime(CLOCK_REALTIME, new Uint8Array(new BigInt64Array([seconds, ns]).buffer)) !== 0) {
    throw new Error("the kernel does not set its clock");
  }
}

/**
 * Moves the clock by some `ms`, forward or back. A small shift is made little by little: time
 * does not go back for programs.
 *
 * @throws {Error} the kernel refuses
 */
export function shiftClock(ms: number): void {
  libc ??= loadLibc();
  const timex = new DataView(new ArrayBuffer(TIMEX_BYTES));
  if (Math.abs(ms) <= SLEW_MAX_MS) {
    timex.setUint32(MODES, ADJ_OFFSET_SINGLESHOT, true);
    timex.setBigInt64(OFFSET, BigInt(Math.round(ms * 1000)), true);
  } else {
    const { seconds, ns } = split(ms);
    timex.setUint32(MODES, ADJ_SETOFFSET | ADJ_NANO, true);
    timex.setBigInt64(SECONDS, seconds, true);
    timex.setBigInt64(PART, ns, true);
  }
  if (libc.adjtimex(new Uint8Array(timex.buffer)) < 0) throw new Error("the kernel does not move its clock");
}

/** A time as the kernel has it: the part of a second is never negative. */
function split(ms: number): { seconds: bigint; ns: bigint } {
  const seconds = Math.floor(ms / 1000);
  return { seconds: BigInt(seconds), ns: BigInt(Math.round((ms - seconds * 1000) * 1e6)) };
}

const text = (value: string) => new TextEncoder().encode(`${value}\0`);

/** @param options of the file system @throws {Error} the kernel refuses, which it does for anyone but root */
export function mount(type: string, target: string, options = ""): void {
  const { mount } = loadFunctions({
    mount: { parameters: ["buffer", "buffer", "buffer", "u64", "buffer"], result: "i32" },
  });
  if (mount(text("none"), text(target), text(type), 0n, text(options)) !== 0) {
    throw new Error(`${type} cannot be mounted at ${target}`);
  }
}

/** Removes the last mount at a folder. @throws {Error} the kernel refuses */
export function unmount(target: string): void {
  const { umount2 } = loadFunctions({ umount2: { parameters: ["buffer", "i32"], result: "i32" } });
  if (umount2(text(target), 0) !== 0) throw new Error(`${target} cannot be unmounted`);
}

/** Writes all data of all file systems out. */
export async function writeDataOut(): Promise<void> {
  await loadFunctions({ sync: { parameters: [], result: "void", nonblocking: true } }).sync();
}

const O_WRONLY = 1;
const RNDADDENTROPY = 0x40085203;
const RNDRESEEDCRNG = 0x5207;

function loadRandom() {
  return loadFunctions({
    open: { parameters: ["buffer", "i32"], result: "i32" },
    ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let random: ReturnType<typeof loadRandom> | undefined;

/**
 * Gives the kernel a seed that it counts in full, and has it draw new keys at once, for every processor.
 *
 * @throws {Error} the kernel refuses, which it does for anyone but root
 */
export function reseedKernel(seed: Uint8Array): void {
  random ??= loadRandom();
  const fd = random.open(new TextEncoder().encode("/dev/urandom\0"), O_WRONLY | O_CLOEXEC);
  if (fd < 0) throw new Error("/dev/urandom cannot be opened");
  try {
    // struct rand_pool_info: bits of entropy, bytes of the seed, the seed.
    const pool = new Uint8Array(8 + seed.length);
    const head = new DataView(pool.buffer);
    head.setInt32(0, seed.length * 8, true);
    head.setInt32(4, seed.length, true);
    pool.set(seed, 8);
    if (random.ioctl(fd, BigInt(RNDADDENTROPY), pool) !== 0) throw new Error("the kernel takes no seed");
    if (random.ioctl(fd, BigInt(RNDRESEEDCRNG), null) !== 0) throw new Error("the kernel draws no new keys");
  } finally {
    random.close(fd);
  }
}
