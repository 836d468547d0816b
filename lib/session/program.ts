import { type Event, GUEST_WORKSPACE, type ProcessActivity } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";

/** A program to run. */
export interface Program {
  argv: string[];
  cwd?: string;
}

/** A program that the host is asked to start in the guest. */
export function execDraft(program: Program): Draft {
  return {
    common: { event_type: "process.exec", source_engine: "process", actor: "host" },
    process: { activity: { ...activity(program), operation: "exec" } },
  };
}

/** A program that has ended. */
export function exitDraft(program: Program, exit_code: number): Draft {
  return {
    common: { event_type: "process.exit", source_engine: "process", actor: "host" },
    process: { activity: { ...activity(program), operation: "exit", exit_code } },
  };
}

/**
 * What an event that may have been rewritten runs: a new `command` is a line for the shell, a new `executable` takes
 * the old one's arguments.
 */
export function programOf({ process }: Event, asked: Program): Program {
  const { executable, command, cwd } = process!.activity;
  const before = activity(asked);
  const moved = cwd === before.cwd ? asked.cwd : cwd;
  if (command !== before.command) return { argv: ["/bin/sh", "-c", command], cwd: moved };
  if (executable !== before.executable) return { argv: [executable, ...asked.argv.slice(1)], cwd: moved };
  return { argv: asked.argv, cwd: moved };
}

function activity({ argv, cwd = GUEST_WORKSPACE }: Program): Omit<ProcessActivity, "operation"> {
  return { executable: argv[0], command: argv.join(" "), argv, cwd };
}
