/** The kernel's trace of programs: an instance of its own, read in its binary form. */
import { PolledFiles } from "../../../ffi/libc/poll.ts";
import {
  BUFFER_KIB,
  CLOCK,
  EVENTS,
  FILTERS,
  INSTANCE,
  OWNER_PROBES,
  PROBES,
  type TraceEvent,
  TRACING,
} from "../../../lib/machine/guest/trace/mod.ts";
import { LAYER_PATH } from "../../../lib/machine/guest/wire/mod.ts";
import { FILE_EVENTS, FILE_PROBES, type FileEvent, readFilter } from "./files.ts";
import { PAGE_BYTES, readPage, TraceFormat, type TraceRecord } from "./record.ts";

/** Time for which records are collected before they are read, in `ms`: a read costs more than its records. */
const COLLECT_MS = 100;
/** Most pages of a processor read at once: its whole buffer. */
const PAGES_MAX = BUFFER_KIB * 1024 / PAGE_BYTES;
/** Time between two checks of the trace for gaps, in `ms`. */
const CHECK_MS = 5000;

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
  /** absent where the kernel is too old to report files */
  readonly fileFormats?: Record<FileEvent, TraceFormat>;
  readonly #events: Map<number, TraceEvent | FileEvent>;
  /** a profile calls files secret */
  #readsNamed = false;
  #pipes?: PolledFiles;
  /** records that are read and not taken */
  #held: TraceRecord[] = [];

  private constructor(formats: Record<TraceEvent, TraceFormat>, files?: Record<FileEvent, TraceFormat>) {
    this.formats = formats;
    this.fileFormats = files;
    this.#events = new Map(
      Object.entries({ ...formats, ...files }).map((
        [name, { type }],
      ) => [type, name as TraceEvent | FileEvent]),
    );
  }

  /**
   * Prepares the trace.
   *
   * @param isFirst takes over the trace prepared by init with its records; otherwise it begins empty
   * @throws the kernel's refusal: without the whole trace nothing is reported
   */
  static async open(isFirst: boolean): Promise<KernelTrace> {
    if (!exists(`${TRACING}/dynamic_events`)) {
      const args = ["mount", "-t", "tracefs", "tracefs", TRACING];
      await new Deno.Command(`${LAYER_PATH}/bin/busybox`, { args }).output();
    }
    const isPrepared = isFirst && isWhole();
    if (!isPrepared) {
      if (!exists(INSTANCE)) Deno.mkdirSync(INSTANCE);
      write("tracing_on", "0");
      write("trace", "");
      write("trace_clock", CLOCK);
      write("buffer_size_kb", String(BUFFER_KIB));
      // Readers are woken for any record, not when half of the buffer is full.
      write("buffer_percent", "0");
    }
    return withOneProcessor(() => {
      if (!isPrepared) {
        addProbes(PROBES);
        addOneOf(OWNER_PROBES);
        for (const [name, filter] of Object.entries(FILTERS)) {
          write(`events/${EVENTS[name as TraceEvent]}/filter`, filter);
        }
        enable(EVENTS);
      }
      const formats = formatsOf(EVENTS);
      try {
        addProbes(FILE_PROBES);
      } catch {
        // A kernel without these probes reports programs alone, and the host is informed.
        return new KernelTrace(formats);
      }
      enable(FILE_EVENTS);
      return new KernelTrace(formats, formatsOf(FILE_EVENTS));
    });
  }

  /** Begins to record what programs do, unless the agent has done that. */
  switchOn(): void {
    write("tracing_on", "1");
  }

  /**
   * Reads the existing records.
   *
   * @param lost receives the reason of missing records
   * @returns processes whose begin is among them
   */
  begun(lost: TraceReader["lost"]): Set<number> {
    const processors = Array.from(Deno.readDirSync(`${INSTANCE}/per_cpu`), ({ name }) => name);
    this.#pipes = new PolledFiles(processors.map((name) => `${INSTANCE}/per_cpu/${name}/trace_pipe_raw`));
    this.#held = readAll(this.#pipes, lost).sort(byTime);
    const { fork } = this.formats;
    return new Set(
      this.#held.filter(({ type }) => this.#events.get(type) === "fork")
        .map((record) => Number(fork.number(record, "child_pid"))),
    );
  }

  /**
   * Chooses the files to report.
   *
   * @param devices their file systems, as the kernel numbers them
   * @param secrets paths whose reads are reported, besides every guest's
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

  /**
   * Reads all processors' records, once the trace has begun.
   *
   * @throws the trace has gaps, which were reported to the reader
   */
  async follow(reader: TraceReader): Promise<never> {
    const pipes = this.#pipes!;
    let held = this.#held;
    this.#held = [];
    for (let checked = performance.now();;) {
      if (held.length === 0) await pipes.readable(CHECK_MS);
      await new Promise((resolve) => setTimeout(resolve, COLLECT_MS));
      const settled = held.at(-1)?.time ?? -1n;
      held = [...held, ...readAll(pipes, reader.lost)].sort(byTime);
      // Records up to the last read are complete: this read has covered all processors since.
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
function readAll(pipes: PolledFiles, lost: TraceReader["lost"]): TraceRecord[] {
  const found: TraceRecord[] = [];
  for (let at = 0; at < pipes.count; at++) {
    for (let pages = 0; pages < PAGES_MAX; pages++) {
      // Records are views of their page.
      const bytes = new Uint8Array(PAGE_BYTES);
      const read = pipes.read(at, bytes);
      if (read === 0) break;
      const { records, missed } = readPage(bytes.subarray(0, read));
      if (missed) lost("the kernel's buffer was full");
      for (const record of records) found.push(record);
    }
  }
  return found;
}

function byTime(a: TraceRecord, b: TraceRecord): number {
  return a.time < b.time ? -1 : a.time > b.time ? 1 : 0;
}

/**
 * Adds probes, unless they are there: this program may have been started again. Several may have one name.
 */
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

/** True if every event of programs is switched on, by a clock that all processors share. */
function isWhole(): boolean {
  try {
    const clock = Deno.readTextFileSync(`${INSTANCE}/trace_clock`);
    return clock.includes(`[${CLOCK}]`) &&
      Object.values(EVENTS).every((path) =>
        Deno.readTextFileSync(`${INSTANCE}/events/${path}/enable`).trim() === "1"
      );
  } catch {
    return false;
  }
}

function enable(events: Record<string, string>): void {
  for (const path of Object.values(events)) write(`events/${path}/enable`, "1");
}

/** Formats of the events' records. */
function formatsOf<T extends string>(events: Record<T, string>): Record<T, TraceFormat> {
  const formats = Object.entries<string>(events).map(([name, path]) => [
    name,
    new TraceFormat(Deno.readTextFileSync(`${INSTANCE}/events/${path}/format`)),
  ]);
  return Object.fromEntries(formats);
}

function write(name: string, text: string): void {
  Deno.writeTextFileSync(`${INSTANCE}/${name}`, text);
}

export function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * Parameter of the kernel of an emulated guest, whose other processors init has brought
 * online (lib/machine/vm/command.ts).
 */
const EMULATED = "maxcpus=1";
const PROCESSORS = "/sys/devices/system/cpu";

/**
 * Runs work that changes the kernel's own code while only one processor is online: an emulated one may run a
 * breakpoint that another has placed there temporarily, and the kernel ends in a panic.
 */
function withOneProcessor<T>(work: () => T): T {
  const others = Deno.readTextFileSync("/proc/cmdline").includes(EMULATED) ? onlineProcessors() : [];
  for (const path of others) Deno.writeTextFileSync(path, "0");
  try {
    return work();
  } finally {
    for (const path of others) Deno.writeTextFileSync(path, "1");
  }
}

/** Switches of the processors that are online, without the first one, which has none. */
function onlineProcessors(): string[] {
  return Array.from(Deno.readDirSync(PROCESSORS), ({ name }) => `${PROCESSORS}/${name}/online`)
    .filter((path) => /\/cpu[1-9]\d*\//.test(path) && Deno.readTextFileSync(path).trim() === "1");
}
