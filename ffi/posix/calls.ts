/** POSIX's calls on one platform. */
import { CallError } from "../libc/descriptor.ts";
import type { Platform } from "./platform.ts";

/** Arguments that fill the registers of Apple's arm64, so that the next one is on the stack. */
const FILLERS = [0n, 0n, 0n, 0n, 0n] as const;

function load({ library, errno, variadicOnStack }: Platform) {
  const fillers = variadicOnStack ? FILLERS.map(() => "u64" as const) : [];
  return Deno.dlopen(library, {
    openat: { parameters: ["i32", "buffer", "i32"], result: "i32" },
    openToCreate: { name: "openat", parameters: ["i32", "buffer", "i32", ...fillers, "u64"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
    dup: { parameters: ["i32"], result: "i32" },
    fstat: { parameters: ["i32", "buffer"], result: "i32" },
    fstatat: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
    pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
    pwrite: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
    lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
    ftruncate: { parameters: ["i32", "i64"], result: "i32" },
    fchmod: { parameters: ["i32", "u32"], result: "i32" },
    fchown: { parameters: ["i32", "u32", "u32"], result: "i32" },
    futimens: { parameters: ["i32", "buffer"], result: "i32" },
    fsync: { parameters: ["i32"], result: "i32", nonblocking: true },
    fdopendir: { parameters: ["i32"], result: "pointer" },
    rewinddir: { parameters: ["pointer"], result: "void" },
    readdir: { parameters: ["pointer"], result: "pointer" },
    closedir: { parameters: ["pointer"], result: "i32" },
    readlinkat: { parameters: ["i32", "buffer", "buffer", "usize"], result: "isize" },
    symlinkat: { parameters: ["buffer", "i32", "buffer"], result: "i32" },
    mkdirat: { parameters: ["i32", "buffer", "u32"], result: "i32" },
    renameat: { parameters: ["i32", "buffer", "i32", "buffer"], result: "i32" },
    unlinkat: { parameters: ["i32", "buffer", "i32"], result: "i32" },
    utimensat: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
    fchownat: { parameters: ["i32", "buffer", "u32", "u32", "i32"], result: "i32" },
    errno: { name: errno, parameters: [], result: "pointer" },
  });
}

/** The functions of a platform's C library, loaded when they are needed. */
export class Calls {
  readonly platform: Platform;
  #loaded: ReturnType<typeof load> | undefined;

  constructor(platform: Platform) {
    this.platform = platform;
  }

  get c(): ReturnType<typeof load>["symbols"] {
    return (this.#loaded ??= load(this.platform)).symbols;
  }

  /** Opens an existing entry. @returns a descriptor @throws {CallError} */
  open(at: number, name: Uint8Array<ArrayBuffer>, flags: number): number {
    return this.require("openat", this.c.openat(at, name, flags | this.platform.open.closeOnExec));
  }

  /** Opens a file that must not be there. @returns a descriptor @throws {CallError} */
  create(at: number, name: Uint8Array<ArrayBuffer>, mode: number): number {
    const { create, exclusive, noFollow, closeOnExec } = this.platform.open;
    const flags = 2 /* O_RDWR */ | create | exclusive | noFollow | closeOnExec;
    const open = this.c.openToCreate as unknown as (...args: unknown[]) => number;
    const fillers = this.platform.variadicOnStack ? FILLERS : [];
    return this.require("create", open(at, name, flags, ...fillers, BigInt(mode)));
  }

  /** @throws {CallError} the call has failed */
  require(call: string, result: number): number {
    if (result < 0) throw this.error(call);
    return result;
  }

  /** The error of the call that just failed in this thread. */
  error(call: string): CallError {
    const errno = new Deno.UnsafePointerView(this.c.errno()!).getInt32();
    return new CallError(call, this.platform.errors[errno] ?? String(errno));
  }
}
