/** The system's clock, set or moved. Linux only; only root may. */
import { loadFunctions } from "./load.ts";

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
 * Moves the clock by some `ms`, forward or back. A small shift is made little by little: time does not go back for programs.
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
