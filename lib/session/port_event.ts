/** Events of ports of the host that lead into a VM (docs/design/contracts/02-http.md §2, "Ports"). */
import { SbxError } from "../base/error/mod.ts";
import { userName } from "../base/user/mod.ts";
import { PORT_PROGRAM } from "../machine/guest/mod.ts";
import type { PortWork } from "./forward/mod.ts";
import { type Draft, type Gate, summary } from "../policy/mod.ts";
import { execDraft, exitDraft, type Program } from "./program.ts";

/**
 * Asks the rules about a port that is about to be opened. It is the program of its connections, with a word more, so that a
 * rule on `sbx-port` holds for it too.
 *
 * @returns the id of its event
 * @throws {SbxError} `policy.blocked`, `ledger.unavailable`
 */
export async function decidePort(gate: Pick<Gate, "decide">, work: PortWork): Promise<string> {
  const passage = await gate.decide(labelled(execDraft(programOf(work), work.trace_id), "open", work));
  passage.finish();
  const { event_id } = passage.event.common;
  if (passage.allowed) return event_id;
  throw new SbxError("policy.blocked", summary(passage.decision), {
    hint: `sbx why ${event_id} shows the record`,
  });
}

/** Records that a port was closed. @param event_id of its opening */
export function recordPortClosed(gate: Pick<Gate, "observe">, work: PortWork, event_id: string): void {
  const { trace_id } = work;
  gate.observe(labelled(exitDraft(programOf(work), 0, { event_id, trace_id }), "close", work));
}

function programOf({ guest_port }: PortWork): Program {
  return { argv: [PORT_PROGRAM, `${guest_port}`, "open"], cwd: "/" };
}

function labelled({ common, ...family }: Draft, port: string, { host_port, client }: PortWork): Draft {
  const labels = { ...common.labels, port, host_port: `${host_port}`, client, user: userName() };
  return { common: { ...common, labels }, ...family };
}
