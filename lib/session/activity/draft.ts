/** Processes of a guest, and drafts of their events. */
import {
  type EventProcess,
  type FileActivity,
  fileNameOf,
  type NamedPaths,
  pathClass,
  type ProcessActivity,
} from "../../event/mod.ts";
import { type ActivityFrame, LAYER_PATH } from "../../machine/guest/mod.ts";
import type { Draft } from "../../policy/mod.ts";

/** Folder of the programs of sbx in a guest, and how init is run (lib/publish/image/init.ts). */
const PROGRAMS = `${LAYER_PATH}/`;
const INIT = "/bin/busybox sh /init";
/** Program that runs the guest's other programs. */
const AGENT = `${PROGRAMS}sbx-pty-agent.js`;
/** The reporting program; its begin and end in the record are the report's begin and end. */
const REPORTER = `${PROGRAMS}sbx-activity.js`;

export function guestProgram(
  { pid, ppid, executable, argv, cwd, container }: Pick<
    Extract<ActivityFrame, { t: "Process" }>,
    "pid" | "ppid" | "executable" | "argv" | "cwd" | "container"
  >,
): GuestProgram {
  const command = argv.length > 0 ? argv.join(" ") : executable;
  return {
    process: { command, cwd, executable, pid, ppid, ...container && { container } },
    activity: { argv, command, cwd, executable },
  };
}

/**
 * True for init of the guest, and for programs of sbx that init or one of them started.
 * @param parent the program that started it
 */
export function isOfSbx({ process, activity }: GuestProgram, parent: KnownProcess | undefined): boolean {
  const isOfParent = parent?.isOfSbx === true && !isAgent(parent);
  if (activity.command === INIT) return process.pid === 1 || isOfParent;
  // The arguments of a program that has ended at once may be unknown.
  return isOfParent && [activity.executable, ...activity.argv].some((word) => word.startsWith(PROGRAMS));
}

/** Whether a program runs the host's programs: no program of the VM can be that. */
export function isAgent({ isOfSbx, activity }: KnownProcess): boolean {
  return isOfSbx === true && activity.argv.includes(AGENT);
}

export function execDraft({ process, activity }: GuestProgram, labels: Record<string, string>): Draft {
  return {
    common: { event_type: "process.exec", source_engine: "process", actor: "vm", labels, process },
    process: { activity: { ...activity, operation: "exec" } },
  };
}

export function exitDraft(
  { process, activity }: GuestProgram,
  exit_code: number,
  labels: Record<string, string>,
): Draft {
  return {
    common: { event_type: "process.exit", source_engine: "process", actor: "vm", labels, process },
    process: { activity: { ...activity, operation: "exit", exit_code } },
  };
}

/**
 * An operation of a program on a file.
 *
 * @param options.named classes of the profile
 * @param options.program absent if unknown
 */
export function fileDraft(
  { path, ...activity }: Pick<FileActivity, "operation" | "path" | "byte_count">,
  labels: Record<string, string>,
  { named, program }: { named: NamedPaths; program?: Pick<KnownProcess, "process" | "event_id"> },
): Draft {
  const { process, event_id } = program ?? {};
  return {
    common: {
      event_type: "file.activity",
      source_engine: "file",
      actor: "vm",
      labels: { ...labels, ...event_id !== undefined && { event_id } },
      ...process && { process },
    },
    file: { activity: { ...activity, path, path_class: pathClass(path, named), ...fileNameOf(path) } },
  };
}

/** Marks a draft that waits for its decision. */
export function held(draft: Draft): Draft {
  return { ...draft, common: { ...draft.common, enforceability: "inline_blockable" } };
}

/** Programs that are not recorded one by one. */
export function foldDraft(executable: string, labels: Record<string, string>): Draft {
  const activity = { argv: [], command: executable, cwd: "", executable };
  return {
    common: { event_type: "process.exec", source_engine: "process", actor: "vm", labels },
    process: { activity: { ...activity, operation: "exec" } },
  };
}

/** The report itself: it begins, or ends before the guest does. */
export function reportDraft(operation: "exec" | "exit", labels: Record<string, string>): Draft {
  const activity = { argv: [REPORTER], command: REPORTER, cwd: "/", executable: REPORTER };
  return {
    common: { event_type: `process.${operation}`, source_engine: "process", actor: "vm", labels },
    process: { activity: { ...activity, operation } },
  };
}

/** A program in a process of the guest. */
interface GuestProgram {
  process: EventProcess;
  activity: Omit<ProcessActivity, "operation">;
}

/**
 * Most processes that are remembered, and characters of all of them; the oldest are forgotten
 * (docs/design/contracts/14-limits.md §14).
 */
const PROCESSES_MAX = 65_536;
/** Most processes that are remembered after their end, when their files are closed. */
const ENDED_MAX = 1024;
const CHARACTERS_MAX = 16 * 1024 * 1024;

/** A process reported by the guest. */
interface KnownProcess extends GuestProgram {
  /** its exec; absent where that was counted, or was before the report */
  event_id?: string;
  isCounted: boolean;
  /** init, or a program of sbx that it started */
  isOfSbx?: boolean;
  /** a part of sbx's own look at the VM's work, without events */
  isLook?: boolean;
}

/** Processes by pid. */
export class KnownProcesses {
  readonly #processes = new Map<number, KnownProcess>();
  readonly #ended = new Map<number, KnownProcess>();
  #characters = 0;

  set(pid: number, process: KnownProcess): void {
    this.#take(pid);
    this.#ended.delete(pid);
    this.#processes.set(pid, process);
    this.#characters += sizeOf(process);
    for (const oldest of this.#processes.keys()) {
      if (this.#processes.size <= PROCESSES_MAX && this.#characters <= CHARACTERS_MAX) return;
      this.#take(oldest);
    }
  }

  /** A process, also one that has ended a moment ago. */
  get(pid: number): KnownProcess | undefined {
    return this.#processes.get(pid) ?? this.#ended.get(pid);
  }

  /** A process that has not ended. */
  running(pid: number): KnownProcess | undefined {
    return this.#processes.get(pid);
  }

  /** Notes the end of a process. @returns it */
  end(pid: number): KnownProcess | undefined {
    const known = this.#take(pid);
    if (!known) return undefined;
    this.#ended.set(pid, known);
    if (this.#ended.size > ENDED_MAX) this.#ended.delete(this.#ended.keys().next().value!);
    return known;
  }

  #take(pid: number): KnownProcess | undefined {
    const known = this.#processes.get(pid);
    if (known && this.#processes.delete(pid)) this.#characters -= sizeOf(known);
    return known;
  }
}

/** Characters that a process takes; each text is there twice. */
function sizeOf({ process }: KnownProcess): number {
  return process.executable.length + process.command.length + process.cwd.length;
}
