import { type Event, GUEST_WORKSPACE, type ProcessActivity } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";

/** A program to run. */
export interface Program {
  argv: string[];
  cwd?: string;
}

const BY_HOST = { source_engine: "process", actor: "host" } as const;

/** The event of a program's start. */
type Start = Pick<Event["common"], "event_id" | "trace_id">;

/** The draft of a program that the host starts in the guest. @param trace_id of the request for it */
export function execDraft(program: Program, trace_id?: string): Draft {
  return {
    common: { event_type: "process.exec", ...BY_HOST, ...(trace_id !== undefined && { trace_id }) },
    process: { activity: { ...activityOf(program), operation: "exec" } },
  };
}

/** The draft of its end. */
export function exitDraft(program: Program, exit_code: number, { event_id, trace_id }: Start): Draft {
  return {
    common: {
      event_type: "process.exit",
      ...BY_HOST,
      ...(trace_id !== undefined && { trace_id }),
      labels: { event_id },
    },
    process: { activity: { ...activityOf(program), operation: "exit", exit_code } },
  };
}

/**
 * The program that a decided event runs: a rewritten `command` is a line for the shell, a rewritten `executable` gets
 * the arguments of the request.
 */
export function programOf({ process }: Event, request: Program): Program {
  const { executable, command, cwd } = process!.activity;
  const before = activityOf(request);
  const newCwd = cwd === before.cwd ? request.cwd : cwd;
  if (command !== before.command) return { argv: ["/bin/sh", "-c", command], cwd: newCwd };
  if (executable !== before.executable) return { argv: [executable, ...request.argv.slice(1)], cwd: newCwd };
  return { argv: request.argv, cwd: newCwd };
}

function activityOf({ argv, cwd = GUEST_WORKSPACE }: Program): Omit<ProcessActivity, "operation"> {
  return { executable: argv[0], command: argv.join(" "), argv, cwd };
}
