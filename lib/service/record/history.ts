/** Programs that the host ran in a VM, from the events of its session. */
import type { HistoryResult } from "../../client/api/mod.ts";
import type { LedgerEvent } from "../../ledger/read/mod.ts";

/** One program, from its exec event and its exit event. */
type Execution = HistoryResult["executions"][number];

/** Executions of one answer without a limit in the request, and the most of one. */
export const HISTORY_PAGE = 1000;

/**
 * Makes a page of executions from the events of a session after its cursor, and from as many more as the ends of these
 * executions need.
 *
 * @param events process events, oldest first
 */
export async function historyOf(
  events: AsyncIterable<LedgerEvent>,
  limit = HISTORY_PAGE,
): Promise<HistoryResult> {
  const executions: Execution[] = [];
  const running = new Map<string, Execution>();
  let last: string | undefined;
  let hasMore = false;
  for await (const event of events) {
    const { common, process, decision } = event;
    const activity = process?.activity;
    if (activity?.operation === "exit") {
      const execution = endedBy(event, running);
      if (!execution) continue;
      running.delete(execution.event_id);
      execution.exit_code = activity.exit_code ?? null;
      execution.duration_ms = common.timestamp_unix_ms - execution.timestamp_unix_ms;
    } else if (activity?.operation === "exec" && !hasMore) {
      hasMore = executions.length === limit;
      if (hasMore) continue;
      const { event_id, timestamp_unix_ms, sequence } = common;
      last = String(sequence);
      const { command } = activity;
      const execution = { event_id, timestamp_unix_ms, command, exit_code: null, duration_ms: null };
      executions.push(execution);
      // A program that was not run does not end.
      if (decision === undefined || decision === "allow") running.set(event_id, execution);
    }
    if (hasMore && running.size === 0) break;
  }
  return { executions, ...(hasMore && { next_cursor: last }) };
}

/** The execution that an exit event names; in ledgers of an older sbx, the oldest one of its command. */
function endedBy({ common, process }: LedgerEvent, running: Map<string, Execution>): Execution | undefined {
  const { event_id } = common.labels ?? {};
  if (event_id !== undefined) return running.get(event_id);
  return running.values().find(({ command }) => command === process?.activity.command);
}
