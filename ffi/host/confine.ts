/**
 * Denies this process to open files and sockets and to start programs, for good: by
 * seccomp, or by macOS's sandbox.
 */
import { confineProcess as confineOnLinux } from "../libc/confine.ts";
import { enterSandbox } from "../posix/mod.ts";

/** @returns false if the system has no such filter */
export function confineProcess(): boolean {
  return Deno.build.os === "darwin" ? enterSandbox() : confineOnLinux();
}
