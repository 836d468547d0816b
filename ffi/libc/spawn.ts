/**
 * Programs that lead a session of their own, started by posix_spawn(3). Deno starts such programs with
 * fork(2), which copies its memory map, and under emulation that takes longer than all else. Linux only.
 */
import { CallError, callError, codeOf, cString } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";
import { closeOther, openPipe, type PipeEnd, READABLE, readiness } from "./pipe.ts";

/** Sizes of the types of spawn.h, and of sigset_t, in `bytes`. */
const ATTRIBUTES_BYTES = 336, ACTIONS_BYTES = 80, SIGNALS_BYTES = 128;
const SETSIGDEF = 0x04, SETSIGMASK = 0x08, SETSID = 0x80;
const SIGINT = 2, SIGQUIT = 3, SIGPIPE = 13;
const ENOENT = 2, ENOEXEC = 8, EACCES = 13;
const NO_HANG = 1;
const O_RDWR = 2;
const F_OK = 0, X_OK = 1;
/** Runs executable files without a format that the kernel knows. */
const SHELL = "/bin/sh";

function loadLibc() {
  return loadFunctions({
    posix_spawn: { parameters: ["buffer", "buffer", "buffer", "buffer", "buffer", "buffer"], result: "i32" },
    posix_spawnattr_init: { parameters: ["buffer"], result: "i32" },
    posix_spawnattr_setflags: { parameters: ["buffer", "i16"], result: "i32" },
    posix_spawnattr_setsigdefault: { parameters: ["buffer", "buffer"], result: "i32" },
    posix_spawnattr_setsigmask: { parameters: ["buffer", "buffer"], result: "i32" },
    posix_spawn_file_actions_init: { parameters: ["buffer"], result: "i32" },
    posix_spawn_file_actions_addopen: {
      parameters: ["buffer", "i32", "buffer", "i32", "u32"],
      result: "i32",
    },
    posix_spawn_file_actions_adddup2: { parameters: ["buffer", "i32", "i32"], result: "i32" },
    posix_spawn_file_actions_addchdir_np: { parameters: ["buffer", "buffer"], result: "i32" },
    posix_spawn_file_actions_destroy: { parameters: ["buffer"], result: "i32" },
    access: { parameters: ["buffer", "i32"], result: "i32" },
    pidfd_open: { parameters: ["i32", "u32"], result: "i32" },
    waitpid: { parameters: ["i32", "buffer", "i32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let loaded: { libc: ReturnType<typeof loadLibc>; attributes: Uint8Array<ArrayBuffer> } | undefined;

function shared() {
  if (loaded) return loaded;
  const libc = loadLibc();
  const attributes = new Uint8Array(ATTRIBUTES_BYTES);
  libc.posix_spawnattr_init(attributes);
  libc.posix_spawnattr_setflags(attributes, SETSID | SETSIGDEF | SETSIGMASK);
  // Deno ignores SIGPIPE, and a shell the others for programs that it starts with "&": programs
  // would inherit that, and a shell among them could not trap them.
  const ignored = new Uint8Array(SIGNALS_BYTES);
  const bits = [SIGINT, SIGQUIT, SIGPIPE].reduce((all, signal) => all | 1 << signal - 1, 0);
  new DataView(ignored.buffer).setUint32(0, bits, true);
  libc.posix_spawnattr_setsigdefault(attributes, ignored);
  libc.posix_spawnattr_setsigmask(attributes, new Uint8Array(SIGNALS_BYTES));
  return loaded = { libc, attributes };
}

/** A program and its initial state. */
export interface ProgramStart {
  /** the program, by its path or to be found in the PATH of `env`, and its arguments */
  argv: readonly string[];
  /** its folder, absolute */
  cwd: string;
  /** all of its environment */
  env: Readonly<Record<string, string>>;
  /** user that it runs as; absent: this process's own, root */
  user?: UserIds;
}

/** A user and its groups, the first one apart. */
export interface UserIds {
  uid: number;
  gid: number;
  groups: readonly number[];
}

export interface ProgramOptions extends ProgramStart {
  /** whether it gets input; else it reads nothing */
  stdin: boolean;
}

/** A process of this one. */
export interface SpawnedProcess {
  pid: number;
  status: Promise<SpawnedStatus>;
}

/** End of a process: its code as in shells, 128 and more for a signal, and the signal's number. */
export interface SpawnedStatus {
  code: number;
  signal?: number;
}

export interface SpawnedProgram extends SpawnedProcess {
  stdin?: PipeEnd;
  stdout: PipeEnd;
  stderr: PipeEnd;
}

/** @throws {CallError} `ENOENT`, `EACCES` and other errors of starting a program */
export function spawnProgram({ stdin, ...program }: ProgramOptions): SpawnedProgram {
  const { libc } = shared();
  const input = stdin ? openPipe("writing") : undefined;
  const output = openPipe("reading"), errors = openPipe("reading");
  const pipes = [input, output, errors];
  try {
    for (const pipe of pipes) if (pipe && program.user) giveTo(program.user, pipe.other);
    const pid = spawn(
      program,
      (actions) =>
        pipes.forEach((pipe, fd) =>
          pipe
            ? libc.posix_spawn_file_actions_adddup2(actions, pipe.other, fd)
            : libc.posix_spawn_file_actions_addopen(actions, fd, cString("/dev/null"), 0, 0)
        ),
    );
    return { pid, status: statusOf(pid), stdin: input?.own, stdout: output.own, stderr: errors.own };
  } catch (error) {
    for (const pipe of pipes) pipe?.own.close();
    throw error;
  } finally {
    for (const pipe of pipes) if (pipe) closeOther(pipe);
  }
}

/**
 * Starts a program with a terminal as its streams and its controlling terminal.
 *
 * @param device the terminal, which controls no other session
 * @throws {CallError} as {@linkcode spawnProgram}
 */
export function spawnInTerminal(program: ProgramStart, device: string): SpawnedProcess {
  const { libc } = shared();
  const pid = spawn(program, (actions) => {
    // The leader of a new session that opens a terminal is controlled by it.
    libc.posix_spawn_file_actions_addopen(actions, 0, cString(device), O_RDWR, 0);
    for (const fd of [1, 2]) libc.posix_spawn_file_actions_adddup2(actions, 0, fd);
  });
  return { pid, status: statusOf(pid) };
}

/**
 * Starts a program with open files of this process, each under a number of its own. Another thread may wait
 * for its end ({@linkcode statusOf}).
 *
 * @param files numbers here, and in the program; the standard streams are among them
 * @returns its pid
 * @throws {CallError} as {@linkcode spawnProgram}
 */
export function spawnWithFiles(program: ProgramStart, files: readonly (readonly [number, number])[]): number {
  const { libc } = shared();
  return spawn(program, (actions) => {
    // The same number on both sides keeps the file open.
    for (const [own, its] of files) libc.posix_spawn_file_actions_adddup2(actions, own, its);
  });
}

function spawn(
  { argv, cwd, env, user }: ProgramStart,
  addStreams: (actions: Uint8Array<ArrayBuffer>) => void,
): number {
  const { libc } = shared();
  const actions = new Uint8Array(ACTIONS_BYTES);
  libc.posix_spawn_file_actions_init(actions);
  try {
    const path = pathOf(argv[0], env.PATH ?? "", cwd);
    addStreams(actions);
    libc.posix_spawn_file_actions_addchdir_np(actions, cString(cwd));
    const variables = strings(Object.entries(env).map(([name, value]) => `${name}=${value}`));
    const run = () => start(path, argv, variables, actions);
    return user ? asUser(user, run) : run();
  } finally {
    libc.posix_spawn_file_actions_destroy(actions);
  }
}

/**
 * Numbers of the calls that change this thread alone; libc's functions of these names change every thread.
 */
const CALLS = Deno.build.arch === "aarch64"
  ? { setresuid: 147, setresgid: 149, setgroups: 159 }
  : { setresuid: 117, setresgid: 119, setgroups: 116 };

/** An address is passed as a number: only setgroups takes one. */
function loadSyscall() {
  return loadFunctions({
    syscall: { parameters: ["i64", "i64", "i64", "i64"], result: "i64" },
    fchown: { parameters: ["i32", "u32", "u32"], result: "i32" },
  });
}

/** A group that stays as it is. */
const SAME_GROUP = 2 ** 32 - 1;

/** Gives a pipe to a user, who may open it again then, as /dev/stdout. */
function giveTo({ uid }: UserIds, descriptor: number): void {
  calls ??= loadSyscall();
  if (calls.fchown(descriptor, uid, SAME_GROUP) !== 0) throw callError("fchown");
}

let calls: ReturnType<typeof loadSyscall> | undefined;

/**
 * Runs work with another user's permissions in this thread, which its child keeps: posix_spawn(3)
 * itself changes no user. This thread's saved user stays root, until it is root again; the child's is
 * the user's from its execve(2) on.
 */
function asUser<T>({ uid, gid, groups }: UserIds, work: () => T): T {
  const libc = calls ??= loadSyscall();
  const call = (name: keyof typeof CALLS, ...values: [number, number | bigint, number]) => {
    const [first, second, third] = values.map(BigInt);
    if (libc.syscall(BigInt(CALLS[name]), first, second, third) !== 0n) throw new CallError(name, "EPERM");
  };
  const list = (numbers: readonly number[]) => {
    const ids = new Uint32Array(numbers);
    call("setgroups", ids.length, Deno.UnsafePointer.value(Deno.UnsafePointer.of(ids)), 0);
  };
  list([gid, ...groups]);
  try {
    call("setresgid", gid, gid, 0);
    call("setresuid", uid, uid, 0);
    return work();
  } finally {
    call("setresuid", 0, 0, 0);
    call("setresgid", 0, 0, 0);
    list([0]);
  }
}

/** @returns its pid */
function start(
  path: string,
  argv: readonly string[],
  variables: Strings,
  actions: Uint8Array<ArrayBuffer>,
): number {
  const { libc, attributes } = shared();
  const pid = new Int32Array(1);
  const into = new Uint8Array(pid.buffer);
  const given = strings(argv);
  const errno = libc.posix_spawn(
    into,
    cString(path),
    actions,
    attributes,
    given.pointers,
    variables.pointers,
  );
  if (errno === ENOEXEC && path !== SHELL) {
    return start(SHELL, [SHELL, path, ...argv.slice(1)], variables, actions);
  }
  if (errno !== 0) throw spawnError(errno);
  return pid[0];
}

/** Finds a program as execvp(3) does. */
function pathOf(name: string, searched: string, cwd: string): string {
  if (name.includes("/")) return name;
  const { libc } = shared();
  let isThere = false;
  for (const folder of name === "" ? [] : searched.split(":")) {
    const path = `${folder.startsWith("/") ? "" : `${cwd}/`}${folder}/${name}`;
    if (libc.access(cString(path), X_OK) === 0 && Deno.statSync(path).isFile) return path;
    isThere ||= libc.access(cString(path), F_OK) === 0;
  }
  throw spawnError(isThere ? EACCES : ENOENT);
}

function spawnError(errno: number): CallError {
  return new CallError("posix_spawn", codeOf(errno));
}

/** Waits for the end of a child process of this one that nothing else waits for. */
export async function statusOf(pid: number): Promise<SpawnedStatus> {
  const { libc } = shared();
  const ended = libc.pidfd_open(pid, 0);
  if (ended < 0) throw callError("pidfd_open");
  await readiness().wait(ended, READABLE);
  readiness().forget(ended);
  libc.close(ended);
  const status = new Int32Array(1);
  libc.waitpid(pid, new Uint8Array(status.buffer), NO_HANG);
  const signal = status[0] & 127;
  return signal > 0 ? { code: 128 + signal, signal } : { code: (status[0] >> 8) & 255 };
}

/** An array of C strings, with the memory that it points to. */
interface Strings {
  pointers: Uint8Array<ArrayBuffer>;
  bytes: Uint8Array<ArrayBuffer>;
}

function strings(texts: readonly string[]): Strings {
  const bytes = cString(texts.join("\0"));
  const begin = Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes));
  const pointers = new BigUint64Array(texts.length + 1);
  for (let i = 0, at = 0; i < texts.length; i++) {
    pointers[i] = begin + BigInt(at);
    at = bytes.indexOf(0, at) + 1;
  }
  return { pointers: new Uint8Array(pointers.buffer), bytes };
}

const CLOSE_RANGE_CLOEXEC = 4;
/** The first after the standard streams, and the last. */
const FIRST = 3;
const LAST = 0xffff_ffff;

let range: ReturnType<typeof loadCloseRange> | undefined;

function loadCloseRange() {
  return loadFunctions({ close_range: { parameters: ["u32", "u32", "i32"], result: "i32" } });
}

/**
 * Keeps the programs that are started from here on from getting any open file but their standard streams.
 * Deno opens vsock connections without that.
 *
 * @throws {Error} the kernel cannot do it
 */
export function inheritNothing(): void {
  range ??= loadCloseRange();
  if (range.close_range(FIRST, LAST, CLOSE_RANGE_CLOEXEC) !== 0) {
    throw new Error("close_range failed: programs would get the agent's connections");
  }
}
