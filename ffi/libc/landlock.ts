/**
 * Landlock (landlock(7)): a thread, and every program that it starts, can use the files that it names here
 * and no other. Linux 5.13 and later.
 */
import { CallError, callError, cString } from "./descriptor.ts";
import { O_CLOEXEC, O_PATH } from "./flags.ts";
import { addressOf, loadFunctions } from "./load.ts";

/** The same on every architecture. */
const CREATE_RULESET = 444n, ADD_RULE = 445n, RESTRICT_SELF = 446n;
const CREATE_RULESET_VERSION = 1n;
const RULE_PATH_BENEATH = 1n;
/** Sizes of `struct landlock_ruleset_attr` and `struct landlock_path_beneath_attr`, in `bytes`. */
const RULESET_BYTES = 24, PATH_BYTES = 12;

/** Rights to files, by the version that brought them. */
const EXECUTE = 1n << 0n, WRITE_FILE = 1n << 1n, READ_FILE = 1n << 2n, READ_DIR = 1n << 3n;
const REMOVE_DIR = 1n << 4n,
  REMOVE_FILE = 1n << 5n,
  MAKE_DIR = 1n << 7n,
  MAKE_REG = 1n << 8n,
  MAKE_SOCK = 1n << 9n;
const TRUNCATE = 1n << 14n, IOCTL_DEV = 1n << 15n;
/** Connecting to a Unix socket with a path, unless a program of the same domain listens on it. */
const RESOLVE_UNIX = 1n << 16n;
/** Versions that brought limits on the network, and on abstract sockets and signals. */
const VERSIONS = { network: 4, scope: 6 } as const;
/** All rights of version 1, and the ones that later versions added. */
const FIRST_RIGHTS = (1n << 13n) - 1n,
  LATER_RIGHTS = [[2, 1n << 13n], [3, TRUNCATE], [5, IOCTL_DEV], [9, RESOLVE_UNIX]] as const;
/** Binding and connecting of TCP; abstract Unix sockets and signals out of the domain. */
const TCP = 3n, SCOPES = 3n;
/** Rights to a folder that mean nothing for a file. */
const OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/** Files that a confined thread can use. Paths that are not there are left out. */
export interface FileRights {
  /** files, and everything below folders */
  read?: readonly string[];
  /** the same, to be run too */
  run?: readonly string[];
  /** files that exist */
  write?: readonly string[];
  /** folders in which files and folders are made, written and removed */
  folders?: readonly string[];
  /** devices that exist, with all of their operations */
  devices?: readonly string[];
  /** folders in which sockets are made, removed and connected to */
  sockets?: readonly string[];
}

const RIGHTS: Record<keyof FileRights, bigint> = {
  read: READ_FILE | READ_DIR,
  run: READ_FILE | READ_DIR | EXECUTE,
  write: READ_FILE | WRITE_FILE | TRUNCATE,
  folders: READ_FILE | WRITE_FILE | TRUNCATE | READ_DIR | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR,
  devices: READ_FILE | WRITE_FILE | IOCTL_DEV,
  sockets: READ_FILE | WRITE_FILE | READ_DIR | MAKE_SOCK | REMOVE_FILE | RESOLVE_UNIX,
};

function loadLibc() {
  return loadFunctions({
    syscall: { parameters: ["i64", "i64", "i64", "i64", "i64"], result: "i64" },
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

function call(number: bigint, ...values: [bigint, bigint, bigint, bigint]): number {
  libc ??= loadLibc();
  return Number(libc.syscall(number, ...values));
}

/** Version of Landlock that the kernel offers; 0: none. */
export function landlockVersion(): number {
  if (Deno.build.os !== "linux") return 0;
  return Math.max(0, call(CREATE_RULESET, 0n, 0n, CREATE_RULESET_VERSION, 0n));
}

/**
 * Confines this thread and the programs that it starts from now on, for good: to these files, and, from
 * version 4, 6 and 9 on, to no TCP, no signal to other programs, and the Unix sockets of its folders. Files
 * that are open already stay usable. The thread can gain no privileges any more (`dropNewPrivileges`).
 *
 * @returns the version; 0: the kernel has none, and the thread is as it was
 * @throws {CallError} the kernel refuses
 */
export function restrictFiles(rights: FileRights): number {
  const version = landlockVersion();
  if (version === 0) return 0;
  const handled = LATER_RIGHTS.reduce((all, [from, bit]) => from <= version ? all | bit : all, FIRST_RIGHTS);
  const attributes = new BigUint64Array([
    handled,
    version >= VERSIONS.network ? TCP : 0n,
    version >= VERSIONS.scope ? SCOPES : 0n,
  ]);
  const bytes = new Uint8Array(attributes.buffer);
  const size = version >= VERSIONS.scope ? RULESET_BYTES : version >= VERSIONS.network ? 16 : 8;
  const ruleset = call(CREATE_RULESET, addressOf(bytes), BigInt(size), 0n, 0n);
  if (ruleset < 0) throw callError("landlock_create_ruleset");
  try {
    for (const kind of Object.keys(RIGHTS) as (keyof FileRights)[]) {
      for (const path of rights[kind] ?? []) addRule(ruleset, path, RIGHTS[kind] & handled);
    }
    if (call(RESTRICT_SELF, BigInt(ruleset), 0n, 0n, 0n) !== 0) throw callError("landlock_restrict_self");
  } finally {
    libc!.close(ruleset);
  }
  return version;
}

function addRule(ruleset: number, path: string, rights: bigint): void {
  const isFolder = folderOrNot(path);
  if (isFolder === undefined) return;
  const file = libc!.open(cString(path), O_PATH | O_CLOEXEC, 0);
  if (file < 0) throw new CallError("open", path);
  try {
    const view = new DataView(new ArrayBuffer(PATH_BYTES));
    view.setBigUint64(0, isFolder ? rights : rights & OF_FILES, true);
    view.setInt32(8, file, true);
    const bytes = new Uint8Array(view.buffer);
    if (call(ADD_RULE, BigInt(ruleset), RULE_PATH_BENEATH, addressOf(bytes), 0n) !== 0) {
      throw callError(`landlock_add_rule of ${path}`);
    }
  } finally {
    libc!.close(file);
  }
}

/** @returns undefined if there is no such path */
function folderOrNot(path: string): boolean | undefined {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return undefined;
  }
}
