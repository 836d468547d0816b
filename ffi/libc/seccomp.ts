/** Filters of system calls (seccomp(2)), as programs of classic BPF. Linux only. */
import { addressOf, loadFunctions } from "./load.ts";

const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_SET_MODE_FILTER = 1n;
const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;
/** Offsets in `struct seccomp_data`, in `bytes`; of an argument, its lower half. */
const OFFSET = { nr: 0, arch: 4, argument: (at: number) => 16 + at * 8 } as const;
/** Marks calls of the x32 interface, which has its own numbers. */
const X32_BIT = 0x40000000;
const EPERM = 1;

/** Applies to every thread of the process, running ones too. */
export const FILTER_ALL_THREADS = 1n;
/** Makes a file that the calls are received from (seccomp_unotify(2)). */
export const FILTER_NEW_LISTENER = 8n;

/** Ends of a filter. */
export const ALLOW = 0x7fff0000;
export const NOTIFY = 0x7fc00000;
/** Fails the call. */
export const fail = (errno: number): number => 0x00050000 | errno;

/** Code, places to skip if true and if false, and value. */
export type Instruction = [code: number, onTrue: number, onFalse: number, value: number];

const ARCHES: Partial<Record<typeof Deno.build.arch, { audit: number; seccomp: bigint }>> = {
  x86_64: { audit: 0xc000003e, seccomp: 317n },
  aarch64: { audit: 0xc00000b7, seccomp: 277n },
};

/** A test of one call's argument, its lower 32 bits. */
export interface ArgumentTest {
  nr: number;
  /** place of the argument */
  at: number;
  /** any of these bits, or the whole value */
  bits?: number;
  value?: number;
  /** ends of the filter if the test holds, and if it does not */
  then: number;
  otherwise: number;
}

/**
 * Instructions that decide on calls by their number and an argument. Calls that are not listed are allowed;
 * calls of another architecture, and of x32, fail.
 */
export function filterOf(
  { ends = [], tests = [], foreign = fail(EPERM) }: {
    ends?: readonly (readonly [nr: number, end: number])[];
    tests?: readonly ArgumentTest[];
    foreign?: number;
  },
): Instruction[] {
  const load = (offset: number): Instruction => [LOAD_WORD, 0, 0, offset];
  const give = (value: number): Instruction => [RETURN, 0, 0, value];
  const { audit } = architecture();
  return [
    ...[load(OFFSET.arch), [JUMP_EQUAL, 1, 0, audit] as Instruction, give(foreign)],
    ...[load(OFFSET.nr), [JUMP_AT_LEAST, 0, 1, X32_BIT] as Instruction, give(foreign)],
    ...tests.flatMap(({ nr, at, bits, value, then, otherwise }): Instruction[] => [
      [JUMP_EQUAL, 0, 4, nr],
      load(OFFSET.argument(at)),
      bits === undefined ? [JUMP_EQUAL, 0, 1, value!] : [JUMP_ANY_BIT, 0, 1, bits],
      give(then),
      give(otherwise),
    ]),
    ...ends.flatMap(([nr, end]): Instruction[] => [[JUMP_EQUAL, 0, 1, nr], give(end)]),
    give(ALLOW),
  ];
}

/** True if filters can be made for this system. */
export function hasFilters(): boolean {
  return Deno.build.os === "linux" && ARCHES[Deno.build.arch] !== undefined;
}

function architecture(): { audit: number; seccomp: bigint } {
  const arch = ARCHES[Deno.build.arch];
  if (Deno.build.os !== "linux" || !arch) throw new Error("no such filter on this system");
  return arch;
}

function loadLibc() {
  return loadFunctions({
    prctl: { parameters: ["i32", "u64", "u64", "u64", "u64"], result: "i32" },
    syscall: { parameters: ["i64", "u64", "u64", "buffer"], result: "i64" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/**
 * Lets this thread and the programs that it starts get no privileges from set-user-id files any more.
 * @returns false when the kernel does not support it
 */
export function dropNewPrivileges(): boolean {
  libc ??= loadLibc();
  return libc.prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n) === 0;
}

/**
 * Puts a filter on this thread and on the programs that it starts, for good. Needs CAP_SYS_ADMIN, or
 * {@linkcode dropNewPrivileges}.
 *
 * @returns the number of a listener where one was asked for, or 0; negative: the kernel refused
 */
export function applyFilter(instructions: readonly Instruction[], flags = 0n): number {
  libc ??= loadLibc();
  const filter = encode(instructions);
  // struct sock_fprog: number of instructions, and their address.
  const program = new DataView(new ArrayBuffer(16));
  program.setUint16(0, instructions.length, true);
  program.setBigUint64(8, addressOf(filter), true);
  const bytes = new Uint8Array(program.buffer);
  return Number(libc.syscall(architecture().seccomp, SECCOMP_SET_MODE_FILTER, flags, bytes));
}

function encode(list: readonly Instruction[]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(list.length * 8));
  for (const [at, [code, onTrue, onFalse, value]] of list.entries()) {
    view.setUint16(at * 8, code, true);
    view.setUint8(at * 8 + 2, onTrue);
    view.setUint8(at * 8 + 3, onFalse);
    view.setUint32(at * 8 + 4, value, true);
  }
  return new Uint8Array(view.buffer);
}
