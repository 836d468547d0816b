/**
 * Events of programs that the host starts in a guest, and of ports that lead into it
 * (docs/design/contracts/02-http.md §2, "Ports").
 */
import { type Event, GUEST_WORKSPACE, type ProcessActivity } from "../event/mod.ts";
import { type Draft, type Gate, summary } from "../policy/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { userName } from "../base/user/mod.ts";
import { PORT_PROGRAM } from "../machine/guest/mod.ts";
import type { PortWork } from "./forward/mod.ts";

/** A program to run. */
export interface Program {
  argv: string[];
  cwd?: string;
  /** of the guest; absent: root */
  user?: string;
}

const BY_HOST = { source_engine: "process", actor: "host" } as const;

/** Labels of a program's events. */
export interface ProgramLabels {
  /** the service that the program runs as, or checks */
  service?: string;
  /** a program of sbx itself, which brings a repository or folder in, or reads it */
  repository?: "bring" | "read";
  /** limits that the program has reached, as keys of `[vm.limits]` */
  limit?: string;
}

/** The `process.exec` event of a program. */
type Start = Pick<Event["common"], "event_id" | "trace_id">;

/**
 * The draft of a program that the host starts in the guest.
 *
 * @param trace_id of the request that starts it
 */
export function execDraft(program: Program, trace_id?: string, labels: ProgramLabels = {}): Draft {
  return {
    common: {
      event_type: "process.exec",
      ...BY_HOST,
      ...(trace_id !== undefined && { trace_id }),
      ...Object.keys(labels).length > 0 && { labels: { ...labels } },
    },
    process: { activity: { ...activityOf(program), operation: "exec" } },
  };
}

/** The draft of the end of a program that the host has started. */
export function exitDraft(
  program: Program,
  exit_code: number,
  { event_id, trace_id }: Start,
  labels: ProgramLabels = {},
): Draft {
  return {
    common: {
      event_type: "process.exit",
      ...BY_HOST,
      ...(trace_id !== undefined && { trace_id }),
      labels: { ...labels, event_id },
    },
    process: { activity: { ...activityOf(program), operation: "exit", exit_code } },
  };
}

/**
 * The program to run after rules have decided on its event, and may have rewritten it: a rewritten `command`
 * is run by the shell, a rewritten `executable` gets the arguments of the request.
 */
export function programOf({ process }: Event, request: Program): Program {
  const { executable, command, cwd } = process!.activity;
  const before = activityOf(request);
  const rest = {
    cwd: cwd === before.cwd ? request.cwd : cwd,
    ...(request.user !== undefined && { user: request.user }),
  };
  if (command !== before.command) return { argv: ["/bin/sh", "-c", command], ...rest };
  if (executable !== before.executable) return { argv: [executable, ...request.argv.slice(1)], ...rest };
  return { argv: request.argv, ...rest };
}

function activityOf({ argv, cwd = GUEST_WORKSPACE }: Program): Omit<ProcessActivity, "operation"> {
  return { executable: argv[0], command: argv.join(" "), argv, cwd };
}

/**
 * Has rules decide on opening a port. The event is that of `sbx-port`, which serves the port's connections,
 * so that rules on this program apply.
 *
 * @returns the id of the event
 * @throws {SbxError} `policy.blocked`, `ledger.unavailable`
 */
export async function decidePort(gate: Pick<Gate, "decide">, work: PortWork): Promise<string> {
  const passage = await gate.decide(labelled(execDraft(portProgram(work), work.trace_id), "open", work));
  passage.finish();
  const { event_id } = passage.event.common;
  if (passage.allowed) return event_id;
  throw new SbxError("policy.blocked", summary(passage.decision), {
    hint: `sbx why ${event_id} shows the record`,
  });
}

/** Records that a port was closed. @param event_id of the event of its opening */
export function recordPortClosed(gate: Pick<Gate, "observe">, work: PortWork, event_id: string): void {
  const { trace_id } = work;
  gate.observe(labelled(exitDraft(portProgram(work), 0, { event_id, trace_id }), "close", work));
}

function portProgram({ guest_port }: PortWork): Program {
  return { argv: [PORT_PROGRAM, `${guest_port}`, "open"], cwd: "/" };
}

function labelled({ common, ...family }: Draft, port: string, { host_port, client }: PortWork): Draft {
  const labels = { ...common.labels, port, host_port: `${host_port}`, client, user: userName() };
  return { common: { ...common, labels }, ...family };
}
