/**
 * macOS's sandbox for a process that needs only its open files and sockets: what seccomp is
 * on Linux (ffi/libc/confine.ts).
 */
import { DARWIN } from "./platform.ts";

/**
 * Denies the same as the filter on Linux: opening, connecting, listening, starting, signalling, renaming, and
 * asking the system's own services for it. Pipes, threads, memory and open files stay allowed.
 */
export const SANDBOX_PROFILE = `(version 1)
(allow default)
(deny file-read* file-write* file-ioctl)
(deny network*)
(deny system-socket)
(deny process-exec*)
(deny process-fork)
(deny signal (target others))
(deny mach-lookup)
(deny mach-register)
(deny iokit-open)
(deny ipc-posix*)
(deny ipc-sysv*)
(deny appleevent-send)
(deny job-creation)
`;

/**
 * Confines this process for good, with all of its threads.
 *
 * @returns false if the system refuses the profile
 */
export function enterSandbox(profile = SANDBOX_PROFILE): boolean {
  const system = Deno.dlopen(DARWIN.library, {
    sandbox_init: { parameters: ["buffer", "u64", "buffer"], result: "i32" },
    sandbox_free_error: { parameters: ["pointer"], result: "void" },
  });
  const error = new BigUint64Array(1);
  const text = new TextEncoder().encode(`${profile}\0`);
  const isConfined = system.symbols.sandbox_init(text, 0n, new Uint8Array(error.buffer)) === 0;
  if (error[0] !== 0n) system.symbols.sandbox_free_error(Deno.UnsafePointer.create(error[0]));
  // The library belongs to the whole process: it stays.
  return isConfined;
}
