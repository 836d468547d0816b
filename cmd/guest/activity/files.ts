/** Joins the kernel's records to what happens to files. */
import { memoize } from "../../../lib/base/memo/mod.ts";
import { type NamedPaths, pathClass } from "../../../lib/event/mod.ts";
import { ACTIVITY_LIMITS, type ActivityFrame } from "../../../lib/machine/guest/wire/mod.ts";
import type { TraceFormat, TraceRecord } from "./record.ts";

/*
 * The kernel's reports of files (Linux 6.10 or later): a probe of each of its functions notes the entry in
 * question, and another one, if the first is relevant, reads the names from there up to the root of the file
 * system.
 */

/** Places in the kernel's `struct dentry` (since Linux 2.6.38): its parent, and the pointer to its name. */
const PARENT = 24, NAME = 40;
/**
 * Names that are read from the entry, and from that far above it: an expression has 63 characters at most.
 */
const NAMES = 8, NAMES_ABOVE = 7;
/**
 * Most names of a record: as many of the longest fit into a page of the trace, and
 * a record that does not is lost.
 */
export const NAMES_MAX = NAMES + NAMES_ABOVE;

/** Flags of `struct file` and of `struct iattr`. */
const MODE_READ = 0x1, MODE_WRITE = 0x2, MODE_CREATED = 0x100000;
const ATTR_SIZE = 0x8, ATTR_FILE = 0x2000, ATTR_OPEN = 0x8000;

/** Flag of renameat2(2): both files change their names. */
const RENAME_EXCHANGE = 2;

/** Files whose reads are reported, as kernel patterns: all possible `secret` files (lib/event/path.ts). */
const SECRET_NAMES = [
  ".env*",
  ".netrc",
  ".pgpass",
  ".npmrc",
  ".pypirc",
  ".git-credentials",
  "id_*",
  "*.pem",
  "*.key",
  "*.p12",
  "*.pfx",
  "*.keystore",
  "*shadow",
];
/** Folders of such files, right above one or one further up. */
const SECRET_FOLDERS = [".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", "gcloud", "gh"];
const MAY_BE_SECRET = [
  ...SECRET_NAMES.map((name) => `n0 ~ "${name}"`),
  ...SECRET_FOLDERS.flatMap((name) => [`n1 == "${name}"`, `n2 == "${name}"`]),
].join(" || ");

/** A function of the kernel, and the entry that it works on. */
interface Place {
  at: string;
  entry: string;
}

const FILE = "file->f_path.dentry";
const PLACES = {
  opens: {
    places: [{ at: "security_file_post_open", entry: FILE }],
    fields: `mode=file->f_mode:u32 ${namesFrom(FILE, 0, 3)}`,
  },
  closes: {
    places: [{ at: "security_file_release", entry: FILE }],
    fields: "mode=file->f_mode:u32 size=file->f_inode->i_size:u64",
  },
  makes: {
    places: [
      { at: "vfs_mkdir%return", entry: "dentry" },
      { at: "vfs_symlink%return", entry: "dentry" },
      { at: "vfs_mknod%return", entry: "dentry" },
      { at: "vfs_link%return", entry: "new_dentry" },
    ],
    fields: "ret=$retval",
  },
  removes: {
    places: [{ at: "vfs_unlink%return", entry: "dentry" }, { at: "vfs_rmdir%return", entry: "dentry" }],
    fields: "ret=$retval",
  },
  leaves: { places: [{ at: "vfs_rename", entry: "rd->old_dentry" }], fields: "flags=rd->flags:u32" },
  meets: { places: [{ at: "vfs_rename", entry: "rd->new_dentry" }], fields: "flags=rd->flags:u32" },
  // The entry has moved by then.
  arrives: { places: [{ at: "vfs_rename%return", entry: "rd->old_dentry" }], fields: "ret=$retval" },
  cuts: {
    places: [{ at: "notify_change%return", entry: "dentry" }],
    fields: "ret=$retval valid=attr->ia_valid:u32 size=attr->ia_size:u64",
  },
} satisfies Record<string, { places: Place[]; fields: string }>;

/** Records: the relevant ones of each place. */
const RECORDS = {
  created: { of: "opens", when: `mode & ${MODE_CREATED}`, fields: "" },
  made: { of: "makes", when: "ret == 0", fields: "" },
  removed: { of: "removes", when: "ret == 0", fields: "" },
  leaving: { of: "leaves", when: "", fields: "flags=$flags:u32" },
  swapping: { of: "meets", when: `flags & ${RENAME_EXCHANGE}`, fields: "" },
  renamed: { of: "arrives", when: "ret == 0", fields: "" },
  written: { of: "closes", when: `mode & ${MODE_WRITE}`, fields: "size=$size:u64" },
  // A file opened for truncation is closed later, and reported then.
  cut: {
    of: "cuts",
    when: `ret == 0 && valid & ${ATTR_SIZE} && !(valid & ${ATTR_FILE | ATTR_OPEN})`,
    fields: "size=$size:u64",
  },
  read: { of: "opens", when: `mode & ${MODE_READ} && (${MAY_BE_SECRET})`, fields: "" },
  // For files that a profile calls secret; enabled if it names any, with a filter for their names.
  readNamed: { of: "opens", when: `mode & ${MODE_READ} && !(${MAY_BE_SECRET})`, fields: "" },
} satisfies Record<string, { of: keyof typeof PLACES; when: string; fields: string }>;

export type FileEvent = keyof typeof RECORDS;

export const FILE_EVENTS = Object.fromEntries(
  Object.keys(RECORDS).map((name) => [name, `sbx/file_${name}`]),
) as Record<FileEvent, string>;

/** Longest text of a filter, whatever its bytes are. */
const NAME_MAX = 60;
/** Longest filter that the kernel takes, in `bytes`. */
const FILTER_MAX = 4000;

/** Filter for reads at or below one of these paths; empty if no filter by names can express them. */
export function readFilter(secrets: readonly string[]): string {
  const names = secrets.map((path) => path.slice(path.lastIndexOf("/") + 1));
  // The kernel has no escape for quotes: without a filter all reads are reported, and filtered here.
  if (names.some((name) => /["*?\[\]\\]/.test(name) || name.length > NAME_MAX)) return "";
  const filter = names.flatMap((name) => Array.from({ length: NAMES_MAX }, (_, at) => `n${at} == "${name}"`))
    .join(" || ");
  return filter.length > FILTER_MAX ? "" : filter;
}

/** Definitions of the probes, in their order. */
export const FILE_PROBES = [
  ...Object.entries(PLACES).flatMap(([name, { places, fields }]) =>
    places.map(({ at, entry }) => {
      const device = entry === FILE ? "file->f_inode->i_sb->s_dev" : `${entry}->d_sb->s_dev`;
      return `f:sbx/${name} ${at} dev=${device}:u32 ${fields} d=${entry}:u64 up=${above(entry, NAMES)}:u64`;
    })
  ),
  ...Object.entries(RECORDS).map(([name, { of, when, fields }]) =>
    `e:sbx/file_${name} sbx/${of} dev=$dev:u32 ${fields} ${namesFrom("$d", 0, NAMES)} ${
      namesFrom("$up", NAMES, NAMES_ABOVE)
    }${when && ` if ${when}`}`
  ),
];

/** Expressions for the names of an entry and of those above it, as `n<first>` and so on. */
function namesFrom(entry: string, first: number, count: number): string {
  return Array.from({ length: count }, (_, at) => `n${first + at}=+0(+${NAME}(${above(entry, at)})):string`)
    .join(" ");
}

/** The entry that is `steps` above another. */
function above(entry: string, steps: number): string {
  return `+${PARENT}(`.repeat(steps) + entry + ")".repeat(steps);
}

/** Most threads that are renaming something; the oldest are forgotten. */
const RENAMING_MAX = 4096;
/** In place of values missing from the kernel's report. */
const UNKNOWN = "…";

type Report = Extract<ActivityFrame, { t: "File" }>;
export type FileFormats = Record<FileEvent, Pick<TraceFormat, "number" | "text">>;

/** File systems whose files are reported: the mount point of each, by its device number in the kernel. */
type Mounts = ReadonlyMap<number, string>;

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
      this.#pass({ t: "File", operation, path, pid: this.#programOf(pid), ...more });
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
  #pass(report: Report): void {
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
