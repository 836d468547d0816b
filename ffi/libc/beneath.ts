/**
 * openat2(2): opens a path that cannot leave a folder, even if another program changes links meanwhile. Linux
 * only.
 */
import { O_CLOEXEC, O_DIRECTORY, O_PATH } from "./flags.ts";

const SYS_OPENAT2 = 437n;
const AT_FDCWD = -100;
const RESOLVE_NO_MAGICLINKS = 0x02n;
const RESOLVE_BENEATH = 0x08n;
const RESOLVE_IN_ROOT = 0x10n;
/** Size of `struct open_how`, in `bytes`: three u64. */
const HOW_BYTES = 24n;

const ERRNO: Record<number, string> = {
  2: "ENOENT",
  13: "EACCES",
  18: "EXDEV",
  20: "ENOTDIR",
  36: "ENAMETOOLONG",
  40: "ELOOP",
};

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    syscall: { parameters: ["i64", "i32", "buffer", "buffer", "usize"], result: "i64" },
    close: { parameters: ["i32"], result: "i32" },
    __errno_location: { parameters: [], result: "pointer" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** Error of opening a path; `code` is the name of the errno, or its number. */
export class OpenError extends Error {
  override name = "OpenError";
  readonly code: string;

  constructor(code: string, path: string) {
    super(`${code}: ${path}`);
    this.code = code;
  }
}

/**
 * A file or folder held open with O_PATH, neither for reading nor for writing: this has no effect even on a
 * device or a pipe. `path` is valid until disposal.
 */
export class PathHandle {
  readonly fd: number;

  constructor(fd: number) {
    this.fd = fd;
  }

  get path(): string {
    return `/proc/self/fd/${this.fd}`;
  }

  [Symbol.dispose](): void {
    libc!.symbols.close(this.fd);
  }
}

/**
 * Opens `path` below `root`. Follows links that stay below it.
 *
 * @throws {OpenError} `EXDEV`: the path or a link in it leaves `root`
 */
export function openBeneath(root: string, path: string, { directory = false } = {}): PathHandle {
  return openFrom(root, path || ".", directory ? BigInt(O_DIRECTORY) : 0n, RESOLVE_BENEATH);
}

/**
 * Opens `path` as a program would whose root is `root`: absolute links begin there, and `..` stays in it.
 *
 * @throws {OpenError} `ENOENT`, `ELOOP`
 */
export function openIn(root: string, path: string): PathHandle {
  return openFrom(root, path, 0n, RESOLVE_IN_ROOT);
}

function openFrom(root: string, path: string, flags: bigint, resolve: bigint): PathHandle {
  using folder = openPath(AT_FDCWD, root, BigInt(O_DIRECTORY), 0n);
  return openPath(folder.fd, path, flags, resolve | RESOLVE_NO_MAGICLINKS);
}

function openPath(at: number, path: string, flags: bigint, resolve: bigint): PathHandle {
  libc ??= loadLibc();
  const how = new BigUint64Array([BigInt(O_PATH) | BigInt(O_CLOEXEC) | flags, 0n, resolve]);
  const name = new TextEncoder().encode(path + "\0");
  const fd = Number(libc.symbols.syscall(SYS_OPENAT2, at, name, new Uint8Array(how.buffer), HOW_BYTES));
  if (fd >= 0) return new PathHandle(fd);
  const errno = new Deno.UnsafePointerView(libc.symbols.__errno_location()!).getInt32();
  throw new OpenError(ERRNO[errno] ?? String(errno), path);
}
