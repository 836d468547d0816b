import type { HistoryResult, PolicyContexts } from "../api/mod.ts";
import type { Home } from "../base/home/mod.ts";
import {
  type EventFilter,
  type EventPage,
  type LedgerEvent,
  PAGE_EVENTS_MAX,
  readApproval,
  readEvents,
  readWhy,
} from "../ledger/read/mod.ts";
import { afterAsk } from "../policy/decision/mod.ts";
import type { AskRecord, Decision } from "../policy/mod.ts";
import { sessionPaths } from "../session/mod.ts";
import type { Sessions } from "./sessions.ts";
import type { Supervisor } from "./supervisor.ts";
import type { Vm } from "./vm.ts";

/** Most events of one reply; `GET /sessions/{id}/events` pages through the rest. */
const MAX_EVENTS = 1000;

/** Finds the path of a session's ledger. */
export type LedgerFinder = (idOrName: string) => Promise<string>;

/** Makes a finder by session id or by VM name. A VM that is gone is found too: the last one of that name. */
export function ledgerFinder(supervisor: Supervisor, sessions: Sessions, home: Home): LedgerFinder {
  return async (idOrName) => {
    if (/^[0-9a-f-]{36}$/.test(idOrName)) return sessionPaths(home, idOrName).ledger;
    try {
      return supervisor.find(idOrName).paths.ledger;
    } catch (error) {
      const id = await sessions.findByName(idOrName);
      if (id === undefined) throw error;
      return sessionPaths(home, id).ledger;
    }
  };
}

/** Reads the first events of a VM's session; none before it has a ledger. */
export async function sessionEvents({ paths }: Pick<Vm, "paths">): Promise<LedgerEvent[]> {
  if (!await Deno.lstat(paths.ledger).then(() => true, () => false)) return [];
  return (await readEvents(paths.ledger, { limit: MAX_EVENTS })).events;
}

/** Yields every event of a ledger that passes the filter, reading page after page. */
export async function* eventsOf(
  ledger: string,
  filter: Omit<EventFilter, "cursor" | "limit"> = {},
): AsyncGenerator<LedgerEvent> {
  for (let cursor: string | undefined = "0"; cursor !== undefined;) {
    const page = await readEvents(ledger, { ...filter, cursor, limit: PAGE_EVENTS_MAX });
    yield* page.events;
    cursor = page.next_cursor;
  }
}

/** A page of a session's events as fixtures of detections (docs/contracts.md §6). */
export function contextsOf({ events, next_cursor }: EventPage): PolicyContexts {
  return {
    contexts: events.map(({ decision: _, rule_id: __, outcome: ___, ...context }) => {
      const { session_id, event_id, sequence, timestamp_unix_ms } = context.common;
      return {
        schema: "sbx.policy-context-fixture.v1",
        event_ref: { corpus: "session_db", session_id, event_id, sequence, timestamp_unix_ms },
        expected_labels: [],
        context,
      };
    }),
    ...(next_cursor !== undefined && { next_cursor }),
  };
}

/** One program, from its exec event and the exit event after it. */
type Execution = HistoryResult["executions"][number];

/** Pairs each exec event with the next exit event of the same command. */
export function executionsOf(events: LedgerEvent[]): Execution[] {
  const executions: Execution[] = [];
  for (const { common, process } of events) {
    const activity = process?.activity;
    if (activity?.operation === "exec") {
      const { event_id, timestamp_unix_ms } = common;
      executions.push({
        event_id,
        timestamp_unix_ms,
        command: activity.command,
        exit_code: null,
        duration_ms: null,
      });
    } else if (activity?.operation === "exit") {
      const execution = executions.find(({ command, exit_code }) =>
        exit_code === null && command === activity.command
      );
      if (!execution) continue;
      execution.exit_code = activity.exit_code ?? null;
      execution.duration_ms = common.timestamp_unix_ms - execution.timestamp_unix_ms;
    }
  }
  return executions;
}

/** The record of one event. If its ask is over, the decision is the one that followed the answer. */
export async function explainEvent(ledger: string, eventId: string) {
  const { record, ...why } = await readWhy(ledger, eventId);
  const decision = record && await applyAsk(ledger, record as Decision);
  return { ...why, ...(decision && { decision }) };
}

async function applyAsk(ledger: string, decision: Decision): Promise<Decision> {
  if (decision.decision !== "ask") return decision;
  const ask = await readApproval<AskRecord>(ledger, decision.event_id);
  return ask ? afterAsk(decision, ask) : decision;
}
