/** Finds the history of an event: the programs above it, and the events before it. */
import { type ProcessNode, ProcessTreeBuilder } from "../../../../lib/event/mod.ts";
import { api, type RecordedEvent } from "../../api/routes.ts";

/** Pages of a session's programs that are read. */
const PAGES_MAX = 20;
const PAGE_SIZE = 1000;
/** Events before an event that are shown. */
const BEFORE = 10;

/** A program in a chain. */
export type Program = Pick<ProcessNode, "event_id" | "pid" | "command" | "executable">;

export interface Context {
  /** the program of the event last; none where the VM did not name one */
  programs: Program[];
  /** oldest first */
  before: RecordedEvent[];
}

/** Reads what led to an event. */
export async function contextOf(session: string, event: RecordedEvent): Promise<Context> {
  const { sequence, process } = event.common;
  const [programs, before] = await Promise.all([
    process?.pid ? programsAbove(session, process.pid, sequence) : [],
    eventsBefore(session, sequence),
  ]);
  // A program that the VM does not report is at least named by its requests.
  return { programs: programs.length > 0 || !process ? programs : [process], before };
}

async function eventsBefore(session: string, sequence: number): Promise<RecordedEvent[]> {
  const first = Math.max(0, sequence - 1 - BEFORE);
  const { events } = await api.events(session, { cursor: String(first), limit: String(BEFORE) });
  return events.filter(({ common }) => common.sequence < sequence);
}

async function programsAbove(session: string, pid: number, sequence: number): Promise<Program[]> {
  const builder = new ProcessTreeBuilder();
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const page = await api.events(session, { family: "process", cursor, limit: String(PAGE_SIZE) });
    for (const event of page.events) {
      if (event.common.sequence < sequence) builder.add(event);
    }
    cursor = page.next_cursor;
    if (cursor === undefined) break;
  }
  const { processes } = builder.tree();
  const chain: Program[] = [];
  let node = processes.findLast((each) => each.pid === pid);
  for (; node; node = node.parent === undefined ? undefined : processes[node.parent]) chain.unshift(node);
  return chain;
}
