/** The kernel's trace of programs: an instance of its own, read in its binary form. */
import { PolledFiles } from "../../../ffi/libc/poll.ts";
import { FILE_EVENTS, FILE_PROBES, type FileEvent, readFilter } from "./file_probes.ts";
import { TraceFormat } from "./format.ts";
import { PAGE_BYTES, readPage, type TraceRecord } from "./page.ts";
import { withOneProcessor } from "./processor.ts";

const TRACING = "/sys/kernel/tracing";
const INSTANCE = `${TRACING}/instances/sbx`;
/** Ring buffer of each processor, in `KiB`. */
const BUFFER_KIB = 4096;
/** Arguments that a record of an exec holds; the kernel takes 128 fields, two for each. */
export const ARGS_MAX = 48;
/** Time for which records are collected before they are read, in `ms`: a look costs more than what it finds. */
const COLLECT_MS = 100;
/** Most pages of a processor that are read at once: all that its buffer has. */
const PAGES_MAX = BUFFER_KIB * 1024 / PAGE_BYTES;
/** Time between two looks whether the trace is still whole, in `ms`. */
const CHECK_MS = 5000;

const ARGS = Array.from(
  { length: ARGS_MAX },
  (_, i) => ` p${i}=+${8 * i}($argv):u64 a${i}=+0(+${8 * i}($argv)):ustring`,
);
/** The user that a process acts as; the second one is for kernels that do not know the names of their own fields. */
const OWNER_PROBES = ["new->euid.val", "+20($arg1)"].map((uid) => `p:sbx/owner commit_creds uid=${uid}:u32`);
const PROBES = [
  `e:sbx/exec syscalls/sys_enter_execve f=+0($filename):ustring${ARGS.join("")}`,
  `e:sbx/execat syscalls/sys_enter_execveat f=+0($filename):ustring${ARGS.join("")}`,
  "e:sbx/chdir syscalls/sys_enter_chdir path=+0($filename):ustring",
  "p:sbx/end do_exit code=$arg1:s64",
];
const EVENTS = {
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
/** Records of these that are of no use stay out of the buffer; 10 is TCP_LISTEN. */
const FILTERS: Partial<Record<keyof typeof EVENTS, string>> = { listen: "newstate == 10" };

export type TraceEvent = keyof typeof EVENTS;
export type TraceFormats = Record<TraceEvent, Pick<TraceFormat, "number" | "text">>;

/** Takes records in the order of their times. */
export interface TraceReader {
  take(event: TraceEvent | FileEvent, record: TraceRecord): void;
  /** all that was read is taken; the trace is read on when this settles */
  taken(): Promise<void>;
  /** records are missing */
  lost(why: string): void;
}

export class KernelTrace {
  readonly formats: Record<TraceEvent, TraceFormat>;
  /** absent where the kernel is too old to tell of files */
  readonly fileFormats?: Record<FileEvent, TraceFormat>;
  readonly #events: Map<number, TraceEvent | FileEvent>;
  /** a profile calls files secret */
  #readsNamed = false;

  private constructor(formats: Record<TraceEvent, TraceFormat>, files?: Record<FileEvent, TraceFormat>) {
    this.formats = formats;
    this.fileFormats = files;
    this.#events = new Map(
      Object.entries({ ...formats, ...files }).map((
        [name, { type }],
      ) => [type, name as TraceEvent | FileEvent]),
    );
  }

  /** Prepares the trace, which has no records yet. @throws the kernel's refusal: without all of it nothing is reported */
  static async open(): Promise<KernelTrace> {
    if (!exists(`${TRACING}/dynamic_events`)) {
      await new Deno.Command("/bin/mount", { args: ["-t", "tracefs", "tracefs", TRACING] }).output();
    }
    if (!exists(INSTANCE)) Deno.mkdirSync(INSTANCE);
    write("tracing_on", "0");
    write("trace", "");
    write("trace_clock", "mono");
    write("buffer_size_kb", String(BUFFER_KIB));
    // Readers are woken for any record, not when half of the buffer is full.
    write("buffer_percent", "0");
    return withOneProcessor(() => {
      addProbes(PROBES);
      addOneOf(OWNER_PROBES);
      for (const [name, filter] of Object.entries(FILTERS)) {
        write(`events/${EVENTS[name as TraceEvent]}/filter`, filter);
      }
      const formats = enable(EVENTS);
      try {
        addProbes(FILE_PROBES);
      } catch {
        return new KernelTrace(formats);
      }
      return new KernelTrace(formats, enable(FILE_EVENTS));
    });
  }

  /** Begins to record what programs do. */
  start(): void {
    write("tracing_on", "1");
  }

  /**
   * Chooses the files that are told of.
   *
   * @param devices their file systems, as the kernel numbers them
   * @param secrets paths whose reading is told, besides those that every guest has
   */
  choose(devices: Iterable<number>, secrets: readonly string[]): void {
    if (!this.fileFormats) return;
    const here = Array.from(devices, (device) => `dev == ${device}`).join(" || ");
    for (const path of Object.values(FILE_EVENTS)) write(`events/${path}/filter`, here);
    const names = readFilter(secrets);
    if (names) write(`events/${FILE_EVENTS.readNamed}/filter`, `(${here}) && (${names})`);
    this.#readsNamed = secrets.length > 0;
    write(`events/${FILE_EVENTS.readNamed}/enable`, this.#readsNamed ? "1" : "0");
  }

  /** Reads the records of all processors. @throws the trace is not whole any more, which its reader was told */
  async follow(reader: TraceReader): Promise<never> {
    const processors = Array.from(Deno.readDirSync(`${INSTANCE}/per_cpu`), ({ name }) => name);
    const pipes = new PolledFiles(processors.map((name) => `${INSTANCE}/per_cpu/${name}/trace_pipe_raw`));
    let held: TraceRecord[] = [];
    for (let checked = performance.now();;) {
      if (held.length === 0) await pipes.readable(CHECK_MS);
      await new Promise((resolve) => setTimeout(resolve, COLLECT_MS));
      const settled = held.at(-1)?.time ?? -1n;
      held = [...held, ...readAll(pipes, reader)].sort(byTime);
      // What is not younger than the last look is complete: this one has read all processors since.
      const count = held.findLastIndex(({ time }) => time <= settled) + 1;
      for (const record of held.splice(0, count)) {
        const event = this.#events.get(record.type);
        if (event) reader.take(event, record);
      }
      const problem = performance.now() - checked > CHECK_MS ? this.#problem() : undefined;
      if (problem) reader.lost(problem);
      await reader.taken();
      if (problem) throw new Error(problem);
      if (performance.now() - checked > CHECK_MS) checked = performance.now();
    }
  }

  /** Why the kernel reports no more. */
  #problem(): string | undefined {
    try {
      const paths = Object.values({ ...EVENTS, ...this.fileFormats && FILE_EVENTS })
        .filter((path) => this.#readsNamed || path !== FILE_EVENTS.readNamed);
      const switches = ["tracing_on", ...paths.map((path) => `events/${path}/enable`)];
      const off = switches.find((name) => Deno.readTextFileSync(`${INSTANCE}/${name}`).trim() !== "1");
      return off && `${off} of the kernel's trace was switched off`;
    } catch {
      return "the kernel's trace was removed";
    }
  }
}

/** Reads what all processors have. */
function readAll(pipes: PolledFiles, reader: Pick<TraceReader, "lost">): TraceRecord[] {
  const found: TraceRecord[] = [];
  for (let at = 0; at < pipes.count; at++) {
    for (let pages = 0; pages < PAGES_MAX; pages++) {
      // Records are views of their page.
      const bytes = new Uint8Array(PAGE_BYTES);
      const read = pipes.read(at, bytes);
      if (read === 0) break;
      const { records, missed } = readPage(bytes.subarray(0, read));
      if (missed) reader.lost("the kernel's buffer was full");
      for (const record of records) found.push(record);
    }
  }
  return found;
}

function byTime(a: TraceRecord, b: TraceRecord): number {
  return a.time < b.time ? -1 : a.time > b.time ? 1 : 0;
}

/** Adds probes, unless they are there: this program may have been started again. Several may have one name. */
function addProbes(probes: readonly string[]): void {
  const nameOf = (probe: string) => probe.slice(2, probe.indexOf(" "));
  const missing = probes.filter((probe) => !exists(`${TRACING}/events/${nameOf(probe)}`));
  for (const probe of missing) {
    Deno.writeTextFileSync(`${TRACING}/dynamic_events`, `${probe}\n`, { append: true });
  }
}

/** Adds the first of these probes that the kernel takes. */
function addOneOf(probes: readonly string[]): void {
  for (const [at, probe] of probes.entries()) {
    try {
      return addProbes([probe]);
    } catch (error) {
      if (at === probes.length - 1) throw error;
    }
  }
}

/** @returns the formats of the events' records */
function enable<T extends string>(events: Record<T, string>): Record<T, TraceFormat> {
  const formats = Object.entries<string>(events).map(([name, path]) => {
    const format = new TraceFormat(Deno.readTextFileSync(`${INSTANCE}/events/${path}/format`));
    write(`events/${path}/enable`, "1");
    return [name, format];
  });
  return Object.fromEntries(formats);
}

function write(name: string, text: string): void {
  Deno.writeTextFileSync(`${INSTANCE}/${name}`, text);
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}
