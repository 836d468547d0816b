import type { HistoryResult, PolicyContexts } from "../api/mod.ts";
import {
  type EventFilter,
  type EventPage,
  type LedgerEvent,
  PAGE_EVENTS_MAX,
  readEvents,
} from "../ledger/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { sessionPaths } from "../session/mod.ts";
import type { Supervisor, Vm } from "./mod.ts";

/** Most events that one answer lists; `GET /sessions/{id}/events` pages through the rest. */
const MAX_EVENTS = 1000;

/** Where a session's ledger is. */
export type LedgerOf = (id: string) => Promise<string>;

/** A session's ledger is there after its VM is gone; instead of its id the VM's name will do, the last that had it. */
export function ledgerFinder(supervisor: Supervisor, home: Home): LedgerOf {
  return async (id) => {
    if (/^[0-9a-f-]{36}$/.test(id)) return sessionPaths(home, id).ledger;
    try {
      return supervisor.find(id).paths.ledger;
    } catch (error) {
      const gone = await supervisor.sessions.named(id);
      if (gone === undefined) throw error;
      return sessionPaths(home, gone).ledger;
    }
  };
}

/** The first events of a VM's session; none before it has a ledger. */
export async function sessionEvents({ paths }: Pick<Vm, "paths">): Promise<LedgerEvent[]> {
  if (!await Deno.lstat(paths.ledger).then(() => true, () => false)) return [];
  return (await readEvents(paths.ledger, { limit: MAX_EVENTS })).events;
}

/** Every event of a ledger that the filter takes, page after page. */
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

/** A page of a session as fixtures for detections (contracts.md §2, spec.md "Policy-context fixture line"). */
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

/** One program that was run, from its exec event and the exit event that followed it. */
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
      const open = executions.find(({ command, exit_code }) =>
        exit_code === null && command === activity.command
      );
      if (!open) continue;
      open.exit_code = activity.exit_code ?? null;
      open.duration_ms = common.timestamp_unix_ms - open.timestamp_unix_ms;
    }
  }
  return executions;
}
