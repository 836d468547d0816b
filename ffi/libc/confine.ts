/** seccomp filter for a process that needs only its open files and sockets. Linux only. */

const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_SET_MODE_FILTER = 1n;
/** Applies to every thread of the process, including running ones. */
const SECCOMP_FILTER_FLAG_TSYNC = 1n;
const RET_ALLOW = 0x7fff0000;
/** Fails the call with EACCES. */
const RET_DENY = 0x00050000 | 13;
const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const RETURN = 0x06;
/** Marks calls of the x32 interface, which has its own numbers. */
const X32_BIT = 0x40000000;

interface SeccompArch {
  audit: number;
  seccomp: bigint;
  /**
   * Numbers of calls that open, connect, listen, start, signal, rename files, or bypass a filter. Pipes,
   * threads, memory and calls on open files stay allowed.
   */
  denied: number[];
}

// Call numbers, in the kernel's order of each table.
const ARCHES: Partial<Record<typeof Deno.build.arch, SeccompArch>> = {
  x86_64: {
    audit: 0xc000003e,
    seccomp: 317n,
    // deno-fmt-ignore
    denied: [
      /* open */ 2, /* socket connect accept bind listen */ 41, 42, 43, 49, 50, /* execve kill truncate chdir */ 59, 62, 76, 80,
      /* rename mkdir rmdir creat link unlink symlink chmod chown lchown */ 82, 83, 84, 85, 86, 87, 88, 90, 92, 94,
      /* ptrace mknod chroot mount */ 101, 133, 161, 165, /* openat mkdirat mknodat fchownat */ 257, 258, 259, 260,
      /* rt_sigqueueinfo tkill tgkill rt_tgsigqueueinfo */ 129, 200, 234, 297,
      /* unlinkat renameat linkat symlinkat fchmodat unshare */ 263, 264, 265, 266, 268, 272,
      /* accept4 perf_event_open open_by_handle_at setns process_vm_readv process_vm_writev */ 288, 298, 304, 308, 310, 311,
      /* renameat2 bpf execveat userfaultfd io_uring_setup pidfd_open openat2 pidfd_getfd fchmodat2 */
      316, 321, 322, 323, 425, 434, 437, 438, 452,
    ],
  },
  aarch64: {
    audit: 0xc00000b7,
    seccomp: 277n,
    // deno-fmt-ignore
    denied: [
      /* mknodat mkdirat unlinkat symlinkat linkat renameat mount truncate */ 33, 34, 35, 36, 37, 38, 40, 45,
      /* chdir chroot fchmodat fchownat openat unshare ptrace kill */ 49, 51, 53, 54, 56, 97, 117, 129,
      /* tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo */ 130, 131, 138, 240,
      /* socket bind listen accept connect execve perf_event_open accept4 */ 198, 200, 201, 202, 203, 221, 241, 242,
      /* open_by_handle_at setns process_vm_readv process_vm_writev renameat2 bpf execveat userfaultfd */
      265, 268, 270, 271, 276, 280, 281, 282, /* io_uring_setup pidfd_open openat2 pidfd_getfd fchmodat2 */ 425, 434, 437, 438, 452,
    ],
  },
};

/**
 * Denies this process to open files and sockets, start programs, and change the file system: permanently, in
 * every thread, and for all code including Deno's module loader. Such calls fail with EACCES.
 *
 * @returns false when the kernel does not support the filter
 */
export function confineProcess(): boolean {
  const arch = ARCHES[Deno.build.arch];
  if (Deno.build.os !== "linux" || !arch) return false;
  const libc = Deno.dlopen("libc.so.6", {
    prctl: { parameters: ["i32", "u64", "u64", "u64", "u64"], result: "i32" },
    syscall: { parameters: ["i64", "u64", "u64", "buffer"], result: "i64" },
  });
  const filter = encodeFilter(arch);
  // struct sock_fprog: number of instructions, and their address.
  const prog = new DataView(new ArrayBuffer(16));
  prog.setUint16(0, filter.byteLength / 8, true);
  prog.setBigUint64(8, BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(filter))), true);
  const isActive = libc.symbols.prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n) === 0 &&
    libc.symbols.syscall(
        arch.seccomp,
        SECCOMP_SET_MODE_FILTER,
        SECCOMP_FILTER_FLAG_TSYNC,
        new Uint8Array(prog.buffer),
      ) === 0n;
  libc.close();
  return isActive;
}

/** Encodes a filter that denies the listed calls, calls of other architectures, and x32. */
function encodeFilter({ audit, denied }: SeccompArch): Uint8Array<ArrayBuffer> {
  const count = denied.length;
  const instructions: [code: number, onTrue: number, onFalse: number, value: number][] = [
    [LOAD_WORD, 0, 0, 4],
    [JUMP_EQUAL, 0, count + 3, audit],
    [LOAD_WORD, 0, 0, 0],
    [JUMP_AT_LEAST, count + 1, 0, X32_BIT],
    ...denied.map((nr, at): [number, number, number, number] => [JUMP_EQUAL, count - at, 0, nr]),
    [RETURN, 0, 0, RET_ALLOW],
    [RETURN, 0, 0, RET_DENY],
  ];
  const view = new DataView(new ArrayBuffer(instructions.length * 8));
  for (const [at, [code, onTrue, onFalse, value]] of instructions.entries()) {
    view.setUint16(at * 8, code, true);
    view.setUint8(at * 8 + 2, onTrue);
    view.setUint8(at * 8 + 3, onFalse);
    view.setUint32(at * 8 + 4, value, true);
  }
  return new Uint8Array(view.buffer);
}
