/**
 * seccomp filters for a process that needs only its open files, and for the programs of a machine. Linux
 * only.
 */
import {
  ALLOW,
  applyFilter,
  dropNewPrivileges,
  fail,
  FILTER_ALL_THREADS,
  filterOf,
  hasFilters,
} from "./seccomp.ts";

const EPERM = 1, EACCES = 13, ENOSYS = 38;
const AF_UNIX = 1;
/** Bits of the kinds of sockets that are no streams: datagrams, raw ones, sequences of packets. */
const NO_STREAM = 0b110;
/** All kinds of namespaces of clone(2). */
const NEW_NAMESPACES = 0x7e020000;

/**
 * Calls that open, connect, listen, start, signal, rename files, or bypass a filter. Pipes, threads, memory
 * and calls on open files stay allowed. Numbers are in the order of the kernel's tables.
 */
const DENIED: Partial<Record<typeof Deno.build.arch, number[]>> = {
  // deno-fmt-ignore
  x86_64: [
    /* open */ 2, /* socket connect accept bind listen */ 41, 42, 43, 49, 50, /* execve kill truncate chdir */ 59, 62, 76, 80,
    /* rename mkdir rmdir creat link unlink symlink chmod chown lchown */ 82, 83, 84, 85, 86, 87, 88, 90, 92, 94,
    /* ptrace mknod chroot mount */ 101, 133, 161, 165, /* openat mkdirat mknodat fchownat */ 257, 258, 259, 260,
    /* rt_sigqueueinfo tkill tgkill rt_tgsigqueueinfo */ 129, 200, 234, 297,
    /* unlinkat renameat linkat symlinkat fchmodat unshare */ 263, 264, 265, 266, 268, 272,
    /* accept4 perf_event_open open_by_handle_at setns process_vm_readv process_vm_writev */ 288, 298, 304, 308, 310, 311,
    /* renameat2 bpf execveat userfaultfd io_uring_setup pidfd_open openat2 pidfd_getfd fchmodat2 */
    316, 321, 322, 323, 425, 434, 437, 438, 452,
  ],
  // deno-fmt-ignore
  aarch64: [
    /* mknodat mkdirat unlinkat symlinkat linkat renameat mount truncate */ 33, 34, 35, 36, 37, 38, 40, 45,
    /* chdir chroot fchmodat fchownat openat unshare ptrace kill */ 49, 51, 53, 54, 56, 97, 117, 129,
    /* tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo */ 130, 131, 138, 240,
    /* socket bind listen accept connect execve perf_event_open accept4 */ 198, 200, 201, 202, 203, 221, 241, 242,
    /* open_by_handle_at setns process_vm_readv process_vm_writev renameat2 bpf execveat userfaultfd */
    265, 268, 270, 271, 276, 280, 281, 282, /* io_uring_setup pidfd_open openat2 pidfd_getfd fchmodat2 */ 425, 434, 437, 438, 452,
  ],
};

/**
 * Denies this process to open files and sockets, start programs, and change the file system: permanently, in
 * every thread, and for all code including Deno's module loader. Such calls fail with EACCES.
 *
 * @returns false when the kernel does not support the filter
 */
export function confineProcess(): boolean {
  const denied = DENIED[Deno.build.arch];
  if (!denied || !hasFilters()) return false;
  const refused = fail(EACCES);
  const filter = filterOf({ ends: denied.map((nr) => [nr, refused]), foreign: refused });
  return dropNewPrivileges() && applyFilter(filter, FILTER_ALL_THREADS) === 0;
}

interface MachineCalls {
  socket: number;
  prlimit: number;
  clone: number;
  clone3: number;
  denied: number[];
}

/**
 * Calls by which a program could reach past its files and sockets, or that attack the kernel. Landlock
 * decides neither on modes, owners, times and attributes of files nor on memory, semaphores and queues of
 * System V, and not in each version on signals and on truncate(2).
 */
const MACHINE: Partial<Record<typeof Deno.build.arch, MachineCalls>> = {
  x86_64: {
    socket: 41,
    prlimit: 302,
    clone: 56,
    clone3: 435,
    // deno-fmt-ignore
    denied: [
      /* shmget shmat shmctl semget semop semctl msgget msgsnd msgrcv msgctl */ 29, 30, 31, 64, 65, 66, 68, 69, 70, 71,
      /* kill truncate chmod chown lchown rt_sigqueueinfo utime */ 62, 76, 90, 92, 94, 129, 132,
      /* setxattr lsetxattr removexattr lremovexattr tkill semtimedop utimes mq_open mq_unlink */ 188, 189, 197, 198, 200, 220, 235, 240, 241,
      /* fchownat futimesat fchmodat utimensat rt_tgsigqueueinfo pidfd_send_signal */ 260, 261, 268, 280, 297, 424,
      /* fchmodat2 setxattrat removexattrat */ 452, 463, 466,
      /* ptrace syslog vhangup pivot_root */ 101, 103, 153, 155, /* modify_ldt adjtimex chroot acct settimeofday */ 154, 159, 161, 163, 164,
      /* mount umount2 swapon swapoff reboot */ 165, 166, 167, 168, 169, /* sethostname setdomainname iopl ioperm */ 170, 171, 172, 173,
      /* init_module delete_module quotactl clock_settime */ 175, 176, 179, 227, /* kexec_load add_key request_key keyctl */ 246, 248, 249, 250,
      /* unshare perf_event_open name_to_handle_at open_by_handle_at clock_adjtime setns */ 272, 298, 303, 304, 305, 308,
      /* process_vm_readv process_vm_writev kcmp finit_module kexec_file_load */ 310, 311, 312, 313, 320,
      /* bpf userfaultfd io_uring_setup io_uring_enter io_uring_register */ 321, 323, 425, 426, 427,
      /* open_tree move_mount fsopen fsconfig fsmount fspick */ 428, 429, 430, 431, 432, 433,
      /* pidfd_getfd process_madvise mount_setattr */ 438, 440, 442,
    ],
  },
  aarch64: {
    socket: 198,
    prlimit: 261,
    clone: 220,
    clone3: 435,
    // deno-fmt-ignore
    denied: [
      /* setxattr lsetxattr removexattr lremovexattr truncate fchmodat fchownat utimensat */ 5, 6, 14, 15, 45, 53, 54, 88,
      /* kill tkill rt_sigqueueinfo mq_open mq_unlink msgget msgctl msgrcv msgsnd */ 129, 130, 138, 180, 181, 186, 187, 188, 189,
      /* semget semctl semtimedop semop shmget shmctl shmat rt_tgsigqueueinfo */ 190, 191, 192, 193, 194, 195, 196, 240,
      /* pidfd_send_signal fchmodat2 setxattrat removexattrat */ 424, 452, 463, 466,
      /* umount2 mount pivot_root chroot vhangup quotactl acct */ 39, 40, 41, 51, 58, 60, 89, /* unshare kexec_load init_module delete_module */ 97, 104, 105, 106,
      /* clock_settime syslog ptrace reboot */ 112, 116, 117, 142, /* sethostname setdomainname settimeofday adjtimex */ 161, 162, 170, 171,
      /* add_key request_key keyctl swapon swapoff */ 217, 218, 219, 224, 225, /* perf_event_open name_to_handle_at open_by_handle_at clock_adjtime setns */ 241, 264, 265, 266, 268,
      /* process_vm_readv process_vm_writev kcmp finit_module */ 270, 271, 272, 273, /* bpf userfaultfd kexec_file_load */ 280, 282, 294,
      /* io_uring_setup io_uring_enter io_uring_register */ 425, 426, 427, /* open_tree move_mount fsopen fsconfig fsmount fspick */ 428, 429, 430, 431, 432, 433,
      /* pidfd_getfd process_madvise mount_setattr */ 438, 440, 442,
    ],
  },
};

/**
 * Denies this thread, and the programs that it starts, all sockets but streams of Unix, namespaces, and calls
 * that the programs of a machine have no use for. They can gain no privileges any more.
 *
 * @returns false when the kernel does not support the filter
 */
export function restrictCalls(): boolean {
  const calls = MACHINE[Deno.build.arch];
  if (!calls || !hasFilters()) return false;
  const refused = fail(EPERM);
  const filter = filterOf({
    tests: [
      { nr: calls.socket, at: 0, value: AF_UNIX, then: ALLOW, otherwise: refused },
      // Of the program itself; any other is named by its process id.
      { nr: calls.prlimit, at: 0, value: 0, then: ALLOW, otherwise: refused },
      { nr: calls.clone, at: 0, bits: NEW_NAMESPACES, then: refused, otherwise: ALLOW },
    ],
    // Its flags are out of a filter's reach; without it, libc takes clone(2).
    ends: [[calls.clone3, fail(ENOSYS)], ...calls.denied.map((nr) => [nr, refused] as const)],
  });
  // One filter tests one argument of a call: each of them must allow it.
  const kinds = filterOf({
    tests: [{ nr: calls.socket, at: 1, bits: NO_STREAM, then: refused, otherwise: ALLOW }],
  });
  return dropNewPrivileges() && [filter, kinds].every((each) => applyFilter(each) === 0);
}
