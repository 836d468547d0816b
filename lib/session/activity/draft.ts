import type { EventProcess, ProcessActivity } from "../../event/mod.ts";
import type { ActivityFrame } from "../../guest/mod.ts";
import type { Draft } from "../../policy/mod.ts";

/** Program that reports; its begin and its end in the record are those of the report. */
const REPORTER = "/usr/lib/sbx/sbx-activity.js";

/** A program in a process of the guest. */
export interface GuestProgram {
  process: EventProcess;
  activity: Omit<ProcessActivity, "operation">;
}

export function guestProgram(
  { pid, ppid, executable, argv, cwd }: Pick<
    Extract<ActivityFrame, { t: "Process" }>,
    "pid" | "ppid" | "executable" | "argv" | "cwd"
  >,
): GuestProgram {
  const command = argv.length > 0 ? argv.join(" ") : executable;
  return {
    process: { command, cwd, executable, pid, ppid },
    activity: { argv, command, cwd, executable },
  };
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

/** A program that waits to be run. */
export function heldDraft(program: GuestProgram, labels: Record<string, string>): Draft {
  const draft = execDraft(program, labels);
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
