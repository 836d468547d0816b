/** Files and sockets that this thread can open: a test of its own limits. Linux only. */
import { cString } from "./descriptor.ts";
import { O_CLOEXEC } from "./flags.ts";
import { loadFunctions } from "./load.ts";

const AF_INET = 2, SOCK_DGRAM = 2;

function loadLibc() {
  return loadFunctions({
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** True if this thread can open a file or folder for reading. */
export function opensFile(path: string): boolean {
  libc ??= loadLibc();
  return closed(libc.open(cString(path), O_CLOEXEC, 0));
}

/** True if this thread gets a socket of the Internet. */
export function opensSocket(): boolean {
  libc ??= loadLibc();
  return closed(libc.socket(AF_INET, SOCK_DGRAM, 0));
}

function closed(file: number): boolean {
  if (file >= 0) libc!.close(file);
  return file >= 0;
}
