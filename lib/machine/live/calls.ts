/** Answers the calls of a file server, which the kernel holds until the guard has decided. */
import { type CallListener, makeFile, O_CREAT, SET_ID, type WaitingCall } from "../../../ffi/libc/notify.ts";
import { EACCES, EPERM, type Guard, type MadeFiles, type Named, pathOf, type Verdict } from "./guard.ts";

const AT_FDCWD = -100;
const RENAME_WHITEOUT = 4n;
const S_IFMT = 0o170000, S_IFCHR = 0o020000, S_IFBLK = 0o060000;

export interface CallsOptions {
  guard: Guard;
  made: MadeFiles;
  /** descriptor of the file that leads to the guest's repository; -1 without one */
  gitfile: number;
}

/** Answers calls until the file server has ended. */
export function answerCalls(listener: CallListener, { guard, made, gitfile }: CallsOptions): void {
  for (let call = listener.receive(); call; call = listener.receive()) {
    const found = read(listener, call);
    const verdict = found ? decide(guard, found) : EPERM;
    if (typeof verdict === "number") listener.refuse(call, verdict);
    else if (verdict === "allowed") listener.allow(call);
    else if (verdict === "gitfile") listener.give(call, gitfile);
    else make(listener, call, found!, made);
  }
}

/** A call, as read from the memory of the file server. */
interface Found {
  named: Named;
  /** of a rename, the old name; of a link, a path of the file */
  from?: Named | string;
  flags: number;
  mode: number;
  /** refused whatever the name: a device, for example */
  isRefused?: boolean;
}

function decide(guard: Guard, { named, from, isRefused }: Found): Verdict {
  if (isRefused) return EPERM;
  if (from === undefined) return guard.decide(named);
  if (typeof from === "string") return guard.decideMove(from, named);
  const before = guard.decide(from);
  return before === "allowed" ? guard.decideMove(pathOf(from) ?? "", named) : before;
}

/** Reads a call's arguments. @returns undefined if they cannot be read */
function read(listener: CallListener, waiting: WaitingCall): Found | undefined {
  const { call, args, pid } = waiting;
  const folder = (at: number) => {
    const fd = Number(BigInt.asIntN(32, args[at]));
    return fd === AT_FDCWD ? `/proc/${pid}/cwd` : `/proc/${pid}/fd/${fd}`;
  };
  const name = (at: number) => {
    const bytes = listener.text(waiting, args[at]);
    if (!bytes) throw new Unreadable();
    return String.fromCharCode(...bytes);
  };
  const named = (at: number, does: Named["does"]): Named => ({
    folder: folder(at),
    name: name(at + 1),
    does,
  });
  const low = (value: bigint) => Number(BigInt.asUintN(32, value));
  try {
    switch (call) {
      case "openat":
        return opening(named(0, "look"), low(args[2]), low(args[3]));
      case "openat2": {
        const how = listener.numbers(waiting, args[2], 2);
        return how && opening(named(0, "look"), low(how[0]), low(how[1]));
      }
      case "mkdirat":
        return { named: named(0, "make"), flags: 0, mode: low(args[2]) };
      case "mknodat": {
        const mode = low(args[2]);
        const isDevice = [S_IFCHR, S_IFBLK].includes(mode & S_IFMT);
        return { named: named(0, "make"), flags: 0, mode, isRefused: isDevice || (mode & SET_ID) !== 0 };
      }
      case "symlinkat":
        return { named: named(1, "make"), flags: 0, mode: 0 };
      case "unlinkat":
        return { named: named(0, "remove"), flags: 0, mode: 0 };
      case "linkat": {
        const old = name(1);
        const from = old === "" ? folder(0) : `/proc/${pid}/fd/${old}`;
        return { named: named(2, "make"), from, flags: 0, mode: 0, isRefused: !/^\d*$/.test(old) };
      }
      case "renameat":
      case "renameat2": {
        const isRefused = call === "renameat2" && (args[4] & RENAME_WHITEOUT) !== 0n;
        return { named: named(2, "make"), from: named(0, "remove"), flags: 0, mode: 0, isRefused };
      }
    }
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

class Unreadable extends Error {}

function opening(named: Named, flags: number, mode: number): Found {
  if ((flags & O_CREAT) === 0) return { named, flags, mode };
  return { named: { ...named, does: "make" }, flags, mode, isRefused: (mode & SET_ID) !== 0 };
}

/** Makes a file or folder in place of the caller, so that it is certainly the guest's. */
function make(
  listener: CallListener,
  call: WaitingCall,
  { named, flags, mode }: Found,
  made: MadeFiles,
): void {
  const path = pathOf(named)!;
  try {
    if (call.call === "mkdirat") {
      Deno.mkdirSync(path, { mode });
      made.add(path);
      return listener.done(call);
    }
    if (call.call !== "openat" && call.call !== "openat2") return listener.refuse(call, EACCES);
    using file = makeFile(path, flags, mode);
    made.add(path);
    listener.give(call, file.fd);
  } catch {
    listener.refuse(call, EACCES);
  }
}
