/** Joins the kernel's records to what happens to files. */
import { memoize } from "../../../lib/base/memo/mod.ts";
import { type NamedPaths, pathClass } from "../../../lib/event/mod.ts";
import { ACTIVITY_LIMITS, type ActivityFrame } from "../../../lib/machine/guest/wire/mod.ts";
import { type FileEvent, NAMES_MAX, RENAME_EXCHANGE } from "./file_probes.ts";
import type { TraceFormat } from "./format.ts";
import type { TraceRecord } from "./page.ts";

/** Most threads that are renaming something; the oldest are forgotten. */
const RENAMING_MAX = 4096;
/** In place of values missing from the kernel's report. */
const UNKNOWN = "…";

type Report = Extract<ActivityFrame, { t: "File" }>;
export type FileFormats = Record<FileEvent, Pick<TraceFormat, "number" | "text">>;

/** File systems whose files are reported: the mount point of each, by its device number in the kernel. */
export type Mounts = ReadonlyMap<number, string>;

export class Files {
  readonly #formats: FileFormats;
  #mounts: Mounts = new Map();
  /** kept: a file is made, written and closed, and there is no compiler for patterns in an emulated guest */
  #classOf = memoize(pathClass);
  readonly #programOf: (thread: number) => number;
  readonly #report: (report: Report) => void;
  /** path that a thread is about to rename */
  readonly #leaving = new Map<number, string>();
  /** path that a thread is about to exchange with it */
  readonly #swapping = new Map<number, string>();

  /** @param programOf the process whose program a thread runs */
  constructor(
    formats: FileFormats,
    programOf: (thread: number) => number,
    report: (report: Report) => void,
  ) {
    this.#formats = formats;
    this.#programOf = programOf;
    this.#report = report;
  }

  /** Activates the classes of a profile. */
  use(named: NamedPaths, mounts: Mounts): void {
    this.#classOf = memoize((path) => pathClass(path, named));
    this.#mounts = mounts;
  }

  take(event: FileEvent, record: TraceRecord): void {
    const { pid } = record;
    // Recorded before the kernel got its filter.
    const mount = this.#mounts.get(Number(this.#formats[event].number(record, "dev")));
    if (mount === undefined) return;
    const path = this.#path(mount, event, record);
    const report = (operation: Report["operation"], more?: Partial<Report>) =>
      this.#tell({ t: "File", operation, path, pid: this.#programOf(pid), ...more });
    switch (event) {
      case "created":
      case "made":
        return report("create");
      case "removed":
        return report("delete");
      case "leaving":
        // Either side of an exchange may be recorded first.
        if (!(Number(this.#formats[event].number(record, "flags")) & RENAME_EXCHANGE)) {
          this.#swapping.delete(pid);
        }
        return remember(this.#leaving, pid, path);
      case "swapping":
        return remember(this.#swapping, pid, path);
      case "renamed": {
        const from = this.#leaving.get(pid) ?? UNKNOWN;
        const other = this.#swapping.get(pid);
        this.#leaving.delete(pid);
        this.#swapping.delete(pid);
        report("rename", { from });
        if (other !== undefined) report("rename", { path: from, from: other });
        return;
      }
      case "written":
      case "cut":
        return report("write", { bytes: Number(this.#formats[event].number(record, "size")) });
      case "read":
      case "readNamed":
        return report("read");
    }
  }

  /** Reports relevant events: none of temporary files, and reads of secrets only. */
  #tell(report: Report): void {
    const classes = [report.path, report.from ?? report.path].map((path) => this.#classOf(path));
    if (!classes.includes("secret")) {
      if (report.operation === "read" || classes.every((each) => each === "temp" || each === "device")) {
        return;
      }
    }
    this.#report(report);
  }

  /** Path of a record's file; of one that is very deep, its end. */
  #path(mount: string, event: FileEvent, record: TraceRecord): string {
    const format = this.#formats[event];
    const names: string[] = [];
    while (names.length < NAMES_MAX) {
      const name = format.text(record, `n${names.length}`) ?? UNKNOWN;
      // The root of a file system.
      if (name === "/") break;
      names.unshift(name);
    }
    if (names.length === NAMES_MAX) names.unshift(UNKNOWN);
    const path = [mount, ...names].join("/");
    const { characters } = ACTIVITY_LIMITS;
    return path.length <= characters ? path : UNKNOWN + path.slice(1 - characters);
  }
}

function remember(paths: Map<number, string>, thread: number, path: string): void {
  paths.delete(thread);
  if (paths.size >= RENAMING_MAX) paths.delete(paths.keys().next().value!);
  paths.set(thread, path);
}

/** @param paths where file systems are mounted */
export function mountsOf(paths: Iterable<string>): Mounts {
  return new Map(
    Array.from(paths, (path) => [kernelDevice(Deno.statSync(path).dev), path === "/" ? "" : path]),
  );
}

/** The kernel has its own form of the number, with 20 bits for the minor one. */
function kernelDevice(dev: number): number {
  const major = (dev >>> 8) & 0xfff, minor = (dev & 0xff) | ((dev >>> 12) & 0xfff00);
  return major * 2 ** 20 + minor;
}
