/** Limits of programs: the guest's own, set by a shell that becomes the program. */
import type { ProgramLimits, ReachedLimit } from "./schema.ts";

/** Groups of processes of limited programs, one for each program, with a counter of processes. */
const GROUPS = "/sys/fs/cgroup/sbx";
/** Exit code of a program that the kernel ended for the size of a file: 128 and SIGXFSZ. */
const FILE_TOO_LARGE = 128 + 25;
/** Unit of `ulimit -f` in a POSIX shell: 512 `bytes`. */
const BLOCKS_PER_MIB = 2048;

/**
 * Sets the limits, then becomes the program. Arguments: name of the group, or nothing for a user who is not
 * root and has a limit of the whole user instead; the three limits, each a number or nothing; the program.
 *
 * A group that has become empty is removed by the next program, which may meet one that is about
 * to be used: so it tries again.
 */
const SCRIPT = `fail() { echo "sbx: cannot limit $1 of this program" >&2; exit 126; }
[ -z "$3" ] || ulimit -n "$3" || fail "the open files"
[ -z "$4" ] || ulimit -f "$4" || fail "the size of files"
if [ -n "$2" ] && [ -z "$1" ]; then
  ulimit -u "$2" 2>/dev/null || ulimit -p "$2" 2>/dev/null || fail "the processes"
elif [ -n "$2" ]; then
  g=${GROUPS} n=0
  echo +pids >\${g%/*}/cgroup.subtree_control && mkdir -p $g && echo +pids >$g/cgroup.subtree_control || fail "the processes"
  rmdir $g/* 2>/dev/null
  until { mkdir -p "$g/$1" && echo "$2" >"$g/$1/pids.max" && echo $$ >"$g/$1/cgroup.procs"; } 2>/dev/null; do
    n=$((n+1)); [ $n -lt 5 ] || fail "the processes"
  done
fi
shift 4
command -v "$1" >/dev/null || { echo "sbx: cannot run $1: the program was not found" >&2; exit 126; }
exec "$@"`;

/** A limited program. */
export interface LimitedProgram {
  argv: string[];
  /** file of the guest that counts the processes that were refused to it */
  counter?: string;
}

/**
 * The command line of a program with limits.
 *
 * @param user of the guest; absent: root
 * @param id unique in the guest
 */
export function limitedProgram(
  argv: string[],
  { processes, open_files, file_mb }: ProgramLimits,
  user: string | undefined,
  id: string,
): LimitedProgram {
  const group = processes !== undefined && isRoot(user) ? id : "";
  const words = [group, processes, open_files, file_mb && file_mb * BLOCKS_PER_MIB].map((word) =>
    `${word ?? ""}`
  );
  return {
    argv: ["/bin/sh", "-c", SCRIPT, "sh", ...words, ...argv],
    ...group !== "" && { counter: `${GROUPS}/${group}/pids.events` },
  };
}

/** The limits that a program has reached. @param counted content of its counter; absent: there is none */
export function reachedLimits(
  { file_mb }: ProgramLimits,
  exitCode: number,
  counted?: string,
): ReachedLimit[] {
  const refused = Number(/^max (\d{1,15})$/m.exec(counted ?? "")?.[1] ?? 0);
  return [
    ...refused > 0 ? ["processes" as const] : [],
    ...file_mb !== undefined && exitCode === FILE_TOO_LARGE ? ["file_mb" as const] : [],
  ];
}

function isRoot(user: string | undefined): boolean {
  return user === undefined || /^(root|0+)(:|$)/.test(user);
}
