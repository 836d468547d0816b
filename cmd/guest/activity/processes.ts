/** Joins the kernel's records to execs and exits of processes. */
import { ACTIVITY_LIMITS, type ActivityFrame } from "../../../lib/machine/guest/wire/mod.ts";
import { containerOf, cwdOf, ownerOf, programOf, resolve, type RunningProcess } from "./proc.ts";
import type { TraceRecord } from "./record.ts";
import { ARGS_MAX, type TraceEvent } from "../../../lib/machine/guest/trace/mod.ts";
import type { TraceFormats } from "./trace.ts";

/** What happens to processes. */
export type ProcessEvent = Exclude<TraceEvent, "listen">;

/** Most threads and processes remembered at once; the oldest are forgotten. */
const REMEMBERED_MAX = 65_536;
/** Most threads that are remembered after their end. */
const ENDED_MAX = 1024;
/**
 * Most steps up to the parent that runs a program: pids are used again, and stale links could make a circle.
 */
const STEPS_MAX = 64;

type Report = Extract<ActivityFrame, { t: "Exec" | "Exit" }>;

/** A thread or process. */
interface Task {
  ppid: number;
  uid?: number;
  /** empty where it is not known */
  cwd: string;
  /** of its own, or of the process that it was forked by: a process does not leave its container */
  container?: RunningProcess["container"];
  /** time of its first exec, in `ns` of the trace's clock; absent: it runs its parent's program */
  since?: bigint;
  /** arguments of an exec that has not succeeded yet */
  begun?: Arguments;
  /** folder of a chdir that has not succeeded yet */
  goesTo?: string;
  /** its status as wait(2) has it, once it ends */
  status: number;
}

interface Arguments {
  argv: string[];
  truncated: boolean;
}

export class Processes {
  readonly #formats: TraceFormats;
  readonly #clock: (time: bigint) => number;
  readonly #report: (report: Report) => void;
  readonly #tasks = new Map<number, Task>();
  /** programs of threads that have ended */
  readonly #ended = new Map<number, number>();

  /**
   * @param clock time of a record as unix `ms`
   * @param report receives execs and exits in the order of their times
   */
  constructor(formats: TraceFormats, clock: (time: bigint) => number, report: (report: Report) => void) {
    this.#formats = formats;
    this.#clock = clock;
    this.#report = report;
  }

  /** Knows the processes that run when the trace begins; their own begin is not known. */
  seed(running: readonly RunningProcess[]): void {
    for (const { pid, ppid, uid, cwd, container } of running) {
      this.#set(pid, { ppid, uid, cwd, container, since: 0n, status: 0 });
    }
  }

  /** Takes the records in the order of their times. */
  take(event: ProcessEvent, record: TraceRecord): void {
    const format = this.#formats[event];
    const { pid } = record;
    switch (event) {
      case "begin":
      case "beginAt":
        this.#task(pid).begun = this.#arguments(event, record);
        return;
      case "fork":
        return this.#forked(
          Number(format.number(record, "parent_pid")),
          Number(format.number(record, "child_pid")),
        );
      case "owner":
        this.#task(pid).uid = Number(format.number(record, "uid"));
        return;
      case "chdir":
        this.#task(pid).goesTo = format.text(record, "path");
        return;
      case "moved":
        return this.#moved(pid, format.number(record, "ret") === 0n);
      case "movedTo":
        if (format.number(record, "ret") === 0n) this.#task(pid).cwd = cwdOf(pid);
        return;
      case "end":
        this.#task(pid).status = Number(format.number(record, "code"));
        return;
      case "exec":
        return this.#executed(record);
      case "exit":
        return this.#exited(Number(format.number(record, "pid")), record.time);
    }
  }

  /** The process whose program a thread runs, or ran until a moment ago: files are closed after its end. */
  programOf(thread: number): number {
    const task = this.#tasks.get(thread);
    if (!task) return this.#ended.get(thread) ?? thread;
    return task.since === undefined ? this.#parentOf(task) : thread;
  }

  #forked(parent: number, child: number): void {
    const from = this.#tasks.get(parent);
    this.#set(child, {
      ppid: parent,
      uid: from?.uid,
      cwd: from?.cwd ?? "",
      container: from?.container,
      status: 0,
    });
  }

  #moved(pid: number, succeeded: boolean): void {
    const task = this.#task(pid);
    const to = task.goesTo;
    task.goesTo = undefined;
    if (!succeeded) return;
    task.cwd = to !== undefined && task.cwd ? resolve(task.cwd, to) : cwdOf(pid);
  }

  #executed(record: TraceRecord): void {
    const format = this.#formats.exec;
    const pid = Number(format.number(record, "pid"));
    // A thread that executes a program becomes its process.
    const begun = this.#tasks.get(Number(format.number(record, "old_pid")))?.begun;
    const task = this.#task(pid);
    task.begun = undefined;
    task.since ||= record.time;
    task.cwd ||= cwdOf(pid);
    task.uid ??= ownerOf(pid);
    // Of a container that was read before its engine named it, the name is missing.
    if (task.container?.name === undefined) task.container = containerOf(pid).container ?? task.container;
    const given = format.text(record, "filename") ?? "";
    const { argv, truncated } = begun?.truncated === false ? begun : argumentsOf(pid, begun);
    this.#report({
      t: "Exec",
      pid,
      ppid: this.#parentOf(task),
      uid: task.uid ?? 0,
      executable: task.cwd ? resolve(task.cwd, given) : given,
      argv,
      cwd: task.cwd,
      ...task.container && { container: task.container },
      ...truncated && { truncated },
      started_ms: this.#clock(record.time),
    });
  }

  /**
   * Nearest ancestor that runs a program of its own: shells fork copies of themselves, and threads fork too.
   */
  #parentOf({ ppid }: Task): number {
    for (let pid = ppid, steps = 0; steps < STEPS_MAX; steps++) {
      const task = this.#tasks.get(pid);
      if (!task) break;
      if (task.since !== undefined) return pid;
      pid = task.ppid;
    }
    return ppid;
  }

  #arguments(event: "begin" | "beginAt", record: TraceRecord): Arguments {
    const format = this.#formats[event];
    const argv: string[] = [];
    let truncated = false;
    while (argv.length < ARGS_MAX && format.number(record, `p${argv.length}`) !== 0n) {
      const argument = format.text(record, `a${argv.length}`);
      // The trace cannot read memory that its process has not used yet.
      if (argument === undefined) truncated = true;
      argv.push(argument ?? "");
    }
    return { argv, truncated: truncated || argv.length === ARGS_MAX };
  }

  #exited(pid: number, time: bigint): void {
    const task = this.#tasks.get(pid);
    this.#ended.delete(pid);
    this.#ended.set(pid, this.programOf(pid));
    if (this.#ended.size > ENDED_MAX) this.#ended.delete(this.#ended.keys().next().value!);
    this.#tasks.delete(pid);
    if (task?.since === undefined) return;
    this.#report({
      t: "Exit",
      pid,
      exit_code: exitCodeOf(task.status),
      signal: task.status & 127,
      ...task.since && { duration_ms: Number(time - task.since) / 1e6 },
    });
  }

  /** A task, also one whose fork was not seen. */
  #task(pid: number): Task {
    return this.#tasks.get(pid) ?? this.#set(pid, { ppid: 0, cwd: "", status: 0 });
  }

  #set(pid: number, task: Task): Task {
    this.#tasks.delete(pid);
    if (this.#tasks.size >= REMEMBERED_MAX) this.#tasks.delete(this.#tasks.keys().next().value!);
    this.#tasks.set(pid, task);
    return task;
  }
}

/** Arguments of a process that may run still, where the trace has not all of them. */
function argumentsOf(pid: number, begun: Arguments | undefined): Arguments {
  const found = programOf(pid)?.argv ?? [];
  // For a script, /proc shows its interpreter.
  const argv = begun && begun.argv.length < ARGS_MAX ? found.slice(-begun.argv.length) : found;
  // It may have ended, or run another program by now.
  return argv.length >= (begun?.argv.length ?? 1)
    ? { argv, truncated: argv.length >= ACTIVITY_LIMITS.args }
    : { argv: begun?.argv ?? [], truncated: true };
}

/** Exit code as shells have it. */
function exitCodeOf(status: number): number {
  const signal = status & 127;
  return signal > 0 ? 128 + signal : (status >> 8) & 255;
}
