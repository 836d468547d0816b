/** Programs that the host starts in a guest, each an event before the guest hears of it. */
import { ignore, SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import {
  COMMANDS,
  type ExecStreams,
  FILE_PROGRAM,
  type GuestLink,
  type KeptProgram,
  PORT_PROGRAM,
  type Terminal,
  type TerminalProgram,
} from "../machine/guest/mod.ts";
import {
  limitedProgram,
  narrowLimits,
  type ProgramLimits,
  type ReachedLimit,
  reachedLimits,
  type VmLimits,
} from "../machine/limit/mod.ts";
import type { ExecCall } from "./ipc/mod.ts";
import { type Gate, guestLine, type Passage, summary } from "../policy/mod.ts";
import { type ActivityRecord, rulesIgnore } from "./activity/mod.ts";
import type { SessionHealth } from "./health.ts";
import { execDraft, exitDraft, type Program, programOf } from "./program.ts";

/** Exit code of a program that may not run (docs/design/contracts/02-http.md §2). */
const NOT_PERMITTED = 126;
const LOGIN_SHELL = ["/bin/bash", "--login"];

/** The end of a program. */
export interface ExecOutcome {
  exit_code: number;
  truncated: boolean;
  duration_ms: number;
  /** empty after a look without an event */
  event_id: string;
  /** absent: none */
  limits_reached?: ReachedLimit[];
}

/** Ends of a program's streams on the host. */
export interface ProgramStreams extends ExecStreams {
  /** receives the event of the program's start, and whether policy let it run */
  decided?(event_id: string, allowed: boolean): void;
}

/** Size of a terminal, in characters. */
export interface TerminalSize {
  cols: number;
  rows: number;
}

/** Defaults of an image for programs in its VMs. */
export interface ProgramDefaults {
  cwd?: string;
  user?: string;
  /** shells are no login shells: those read /etc/profile, which would replace the image's PATH */
  keepsPath?: boolean;
}

/** The request with the image's defaults, unless the program is one of sbx's own. */
function withDefaults<P extends Program & { env?: Record<string, string> }>(
  request: P,
  { cwd, user, keepsPath }: ProgramDefaults,
): P {
  if (COMMANDS.includes(request.argv[0])) return request;
  const isShell = keepsPath && request.argv.join(" ") === LOGIN_SHELL.join(" ");
  return {
    ...request,
    ...isShell && { argv: LOGIN_SHELL.slice(0, 1) },
    cwd: request.cwd ?? cwd,
    user: request.user ?? user,
  };
}

/** A program with a terminal of its own. */
export interface TerminalRequest extends TerminalProgram {
  /** receives the event of its start, and the line for its user when policy blocks it */
  decided?(event_id: string, refusal?: string): void;
  cancelled?: AbortSignal;
}

/** A program to run. */
export interface ProgramCall extends ExecCall {
  /** that it is, or, not kept, that it checks: its events have the name */
  service?: { name: string; isKept: boolean };
}

/** The parts of a session that run programs. */
export interface ExecContext {
  gate: Gate;
  activity: Pick<ActivityRecord, "hostStarted"> & {
    holds: Pick<ActivityRecord["holds"], "ready">;
    looks: Pick<ActivityRecord["looks"], "order">;
  };
  /** the guest, which may have been away while a person decided; it is another link then */
  link(): Promise<GuestLink>;
  health: SessionHealth;
  defaults: ProgramDefaults;
  /** of the VM */
  limits?: VmLimits;
  /** variables that came since the guest's boot; the request's own come first */
  env?: Record<string, string>;
}

/**
 * Runs a program. One that policy blocks exits with 126 and a line on its standard error
 * (docs/design/contracts/05-policy.md §5).
 *
 * @throws {SbxError} `ledger.unavailable`
 */
export async function execProgram(
  { gate, activity, link, health, defaults, limits: ofVm, env }: ExecContext,
  { t: _t, acks: _acks, trace_id, service, look, repository, limits: asked, ...own }: ProgramCall,
  streams: ProgramStreams,
  signal?: AbortSignal,
): Promise<ExecOutcome> {
  const request = withDefaults(own, defaults);
  const left = service?.isKept ? (await link()).takeKept(service.name, JSON.stringify(own)) : undefined;
  if (left) return await adoptProgram({ gate, activity, link, health }, left, request, streams, signal);
  const labels = { ...service && { service: service.name }, ...repository && { repository } };
  const draft = execDraft(request, trace_id, labels);
  if (look && rulesIgnore(gate, draft)) {
    activity.looks.order(request.argv);
    await activity.holds.ready();
    const { output, input } = streams;
    const { exit_code, truncated, duration_ms } = await health.notifying(
      streams,
      (await link()).exec(request, { output, input }, signal),
    );
    return { exit_code, truncated, duration_ms: Math.round(duration_ms), event_id: "" };
  }
  const passage = await gate.decide(draft, signal);
  const { allowed, event } = passage;
  const { event_id } = event.common;
  streams.decided?.(event_id, allowed);
  if (!allowed) {
    await streams.output("stderr", encodeLine(refusalLine(passage)));
    return { exit_code: NOT_PERMITTED, truncated: false, duration_ms: 0, event_id };
  }
  await activity.holds.ready();
  const decided = { ...request, ...withEnv(request.env, env), ...programOf(event, request) };
  const limits = repository ? undefined : narrowLimits<ProgramLimits>(ofVm && programLimits(ofVm), asked);
  const { counter, ...rewritten } = limitedCall(decided, limits, event_id);
  const ends: ExecStreams = {
    output: (stream, data) => streams.output(stream, data),
    input: () => streams.input(),
    started(pid) {
      activity.hostStarted(pid, event_id, repository);
      streams.started?.(pid);
    },
  };
  const kept = service?.isKept ? { name: service.name, request: JSON.stringify(own), event_id } : undefined;
  const exit = await health.notifying(streams, (await link()).exec(rewritten, ends, signal, kept));
  const reached = limits
    ? reachedLimits(limits, exit.exit_code, counter && await read(await link(), counter))
    : [];
  const limit = reached.join(" ");
  gate.observe(exitDraft(decided, exit.exit_code, event.common, { ...labels, ...limit !== "" && { limit } }));
  if (exit.error) {
    const line = plain(`sbx: cannot run ${decided.argv[0]}: ${exit.error}`);
    await streams.output("stderr", encodeLine(line));
  }
  return {
    exit_code: exit.exit_code,
    truncated: exit.truncated,
    duration_ms: Math.round(exit.duration_ms),
    event_id,
    ...reached.length > 0 && { limits_reached: reached },
  };
}

/** The guest's part of a VM's limits. */
function programLimits({ processes, open_files, file_mb }: VmLimits): ProgramLimits {
  return { processes, open_files, file_mb };
}

/** A program with its limits. The agent's own actions, on files and ports, have none. */
function limitedCall<P extends Program>(
  program: P,
  limits: ProgramLimits | undefined,
  event_id: string,
): P & { counter?: string } {
  const isAgent = program.argv[0] === FILE_PROGRAM || program.argv[0] === PORT_PROGRAM;
  if (!limits || isAgent) return program;
  return { ...program, ...limitedProgram(program.argv, limits, program.user, event_id) };
}

/** Most `bytes` of a counter; it has a line. */
const COUNTER_BYTES = 1024;

/** A small file of the guest; empty where it cannot be read. */
async function read(link: GuestLink, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  const streams: ExecStreams = {
    output(stream, data) {
      if (stream === "stdout") chunks.push(Uint8Array.fromBase64(data));
      return Promise.resolve();
    },
    input: () => Promise.resolve(null),
  };
  await link.exec({ argv: [FILE_PROGRAM, "read", path], limit: COUNTER_BYTES, stdin: false }, streams)
    .catch(ignore("the guest is gone, and the program's end is known"));
  return await new Blob(chunks as BlobPart[]).text();
}

/** Awaits the end of a service's program that ran while the VM was away: policy has decided on it. */
async function adoptProgram(
  { gate, activity, link, health }: Pick<ExecContext, "gate" | "activity" | "link" | "health">,
  left: KeptProgram,
  request: Program,
  streams: ProgramStreams,
  signal?: AbortSignal,
): Promise<ExecOutcome> {
  const { event_id, name } = left;
  streams.decided?.(event_id, true);
  const ends: ExecStreams = {
    output: (stream, data) => streams.output(stream, data),
    input: () => streams.input(),
    started(pid) {
      activity.hostStarted(pid, event_id);
      streams.started?.(pid);
    },
  };
  const exit = await health.notifying(streams, (await link()).adopt(left, ends, signal));
  gate.observe(exitDraft(request, exit.exit_code, { event_id }, { service: name }));
  const { exit_code, truncated, duration_ms } = exit;
  return { exit_code, truncated, duration_ms: Math.round(duration_ms), event_id };
}

/**
 * Opens a terminal with a program, or with the login shell that the VM shares.
 *
 * @param trace_id of the request for it
 * @throws {SbxError} `policy.blocked`, `vm.busy`, `ledger.unavailable`
 */
export async function openTerminal(
  { gate, activity, link, defaults, limits, env }:
    & Pick<ExecContext, "gate" | "activity" | "defaults" | "limits" | "env">
    & { link: GuestLink },
  size: TerminalSize,
  own?: TerminalRequest,
  trace_id?: string,
): Promise<Terminal> {
  const request = withDefaults<Program>(own ?? { argv: LOGIN_SHELL }, defaults);
  // Before the decision, so that the record has no program that did not run.
  link.requireRoom();
  const passage: Passage = await gate.decide(execDraft(request, trace_id), own?.cancelled);
  const { event_id } = passage.event.common;
  own?.decided?.(event_id, passage.allowed ? undefined : refusalLine(passage));
  if (!passage.allowed) {
    throw new SbxError("policy.blocked", summary(passage.decision), { hint: whyHint(event_id) });
  }
  await activity.holds.ready();
  const program = programOf(passage.event, request);
  const { counter: _, ...limited } = limitedCall(
    program,
    narrowLimits(limits && programLimits(limits), {}),
    event_id,
  );
  const isShell = !own && program.argv === request.argv;
  const terminal = isShell
    ? link.terminal(size, undefined, {
      ...(defaults.keepsPath || limited.argv !== program.argv) && limited,
      ...withEnv(undefined, env),
    })
    : link.terminal(size, { ...limited, ...withEnv(own?.env, env) });
  terminal.pid.then((pid) => activity.hostStarted(pid, event_id));
  if (isShell) return terminal;
  terminal.exit.then((code) => {
    if (code !== undefined) gate.observe(exitDraft(program, code, passage.event.common));
  });
  return terminal;
}

/** Variables of a request over later ones; no field without any. */
function withEnv(
  own: Record<string, string> | undefined,
  later: Record<string, string> = {},
): { env?: Record<string, string> } {
  const env = { ...later, ...own };
  return Object.keys(env).length > 0 ? { env } : {};
}

function refusalLine({ decision, event }: Passage): string {
  return `sbx: ${guestLine(decision)}; ${whyHint(event.common.event_id)}`;
}

function whyHint(eventId: string): string {
  return `sbx why ${eventId} shows the record`;
}

function encodeLine(line: string): string {
  return new TextEncoder().encode(line + "\n").toBase64();
}
