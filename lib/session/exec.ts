/** Programs that the host starts in a guest, each an event before the guest hears of it. */
import { SbxError } from "../base/error/mod.ts";
import type { ExecStreams, GuestLink, Terminal } from "../guest/mod.ts";
import type { ExecCall } from "../ipc/mod.ts";
import { type Gate, guestLine, type Passage, summary } from "../policy/mod.ts";
import type { SessionHealth } from "./health.ts";
import { execDraft, exitDraft, type Program, programOf } from "./program.ts";

/** Exit code of a program that may not run (docs/contracts.md §2). */
const NOT_PERMITTED = 126;
const LOGIN_SHELL = ["/bin/bash", "--login"];

/** The end of a program. */
export interface ExecOutcome {
  exit_code: number;
  truncated: boolean;
  duration_ms: number;
  event_id: string;
}

/** The parts of a session that run programs. */
export interface ExecContext {
  gate: Gate;
  link: GuestLink;
  health: SessionHealth;
}

/**
 * Runs a program. One that policy blocks exits with 126 and a line on its standard error (docs/contracts.md §5).
 *
 * @throws {SbxError} `ledger.unavailable`
 */
export async function execProgram(
  { gate, link, health }: ExecContext,
  { t: _, ...request }: ExecCall,
  streams: ExecStreams,
  signal?: AbortSignal,
): Promise<ExecOutcome> {
  const { allowed, event, decision } = await gate.decide(execDraft(request), signal);
  const { event_id } = event.common;
  if (!allowed) {
    await streams.output("stderr", encodeLine(`sbx: ${guestLine(decision)}; ${whyHint(event_id)}`));
    return { exit_code: NOT_PERMITTED, truncated: false, duration_ms: 0, event_id };
  }
  const rewritten = { ...request, ...programOf(event, request) };
  const exit = await health.notifying(streams, link.exec(rewritten, streams, signal));
  gate.observe(exitDraft(rewritten, exit.exit_code, event_id));
  if (exit.error) {
    await streams.output("stderr", encodeLine(`sbx: cannot run ${rewritten.argv[0]}: ${exit.error}`));
  }
  return {
    exit_code: exit.exit_code,
    truncated: exit.truncated,
    duration_ms: Math.round(exit.duration_ms),
    event_id,
  };
}

/**
 * Opens a terminal with a program, or with the login shell that the VM shares.
 *
 * @throws {SbxError} `policy.blocked`, `vm.busy`, `ledger.unavailable`
 */
export async function openTerminal(
  { gate, link }: Pick<ExecContext, "gate" | "link">,
  size: { cols: number; rows: number },
  argv?: string[],
): Promise<Terminal> {
  const request: Program = { argv: argv ?? LOGIN_SHELL };
  // Before the decision, so that the record has no program that did not run.
  link.requireRoom();
  const passage: Passage = await gate.decide(execDraft(request));
  if (!passage.allowed) {
    const hint = whyHint(passage.event.common.event_id);
    throw new SbxError("policy.blocked", summary(passage.decision), { hint });
  }
  const program = programOf(passage.event, request);
  return link.terminal(size, argv || program.argv !== request.argv ? program.argv : undefined);
}

function whyHint(eventId: string): string {
  return `sbx why ${eventId} shows the record`;
}

function encodeLine(line: string): string {
  return new TextEncoder().encode(line + "\n").toBase64();
}
