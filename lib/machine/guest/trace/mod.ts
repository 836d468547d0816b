/**
 * The kernel's trace of programs, which init prepares and sbx-activity reads. It is an instance of its own:
 * init makes it before the first program (lib/publish/image/init.ts), and the agent switches it on when the
 * guest is ready. Guest programs bundle this folder.
 */

export const TRACING = "/sys/kernel/tracing";
export const INSTANCE = `${TRACING}/instances/sbx`;
/** Ring buffer of each processor, in `KiB`. */
export const BUFFER_KIB = 4096;
/** Clock of the records: the same for all processors. */
export const CLOCK = "mono";
/** Arguments that a record of an exec holds; the kernel takes 128 fields, two for each. */
export const ARGS_MAX = 48;

const ARGS = Array.from(
  { length: ARGS_MAX },
  (_, i) => ` p${i}=+${8 * i}($argv):u64 a${i}=+0(+${8 * i}($argv)):ustring`,
);

export const PROBES = [
  `e:sbx/exec syscalls/sys_enter_execve f=+0($filename):ustring${ARGS.join("")}`,
  `e:sbx/execat syscalls/sys_enter_execveat f=+0($filename):ustring${ARGS.join("")}`,
  "e:sbx/chdir syscalls/sys_enter_chdir path=+0($filename):ustring",
  "p:sbx/end do_exit code=$arg1:s64",
];

/**
 * Probes of the user that a process acts as; the second one is for kernels without
 * the names of their own fields.
 */
export const OWNER_PROBES = ["new->euid.val", "+20($arg1)"].map((uid) =>
  `p:sbx/owner commit_creds uid=${uid}:u32`
);

/** Records of the trace, by their use. */
export const EVENTS = {
  begin: "sbx/exec",
  beginAt: "sbx/execat",
  chdir: "sbx/chdir",
  end: "sbx/end",
  owner: "sbx/owner",
  moved: "syscalls/sys_exit_chdir",
  movedTo: "syscalls/sys_exit_fchdir",
  exec: "sched/sched_process_exec",
  fork: "sched/sched_process_fork",
  exit: "sched/sched_process_exit",
  listen: "sock/inet_sock_set_state",
} as const;

export type TraceEvent = keyof typeof EVENTS;

/** Filters that keep useless records out of the buffer; 10 is TCP_LISTEN. */
export const FILTERS: Partial<Record<TraceEvent, string>> = { listen: "newstate == 10" };
