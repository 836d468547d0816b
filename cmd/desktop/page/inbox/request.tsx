import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type AskView, type RecordedEvent } from "../../api/routes.ts";
import { EventFields } from "../../part/fields.tsx";
import { HttpExchange } from "../../part/http.tsx";
import { subjectOf } from "../../part/subject.ts";
import { Table } from "../../part/table.tsx";
import { timeOf } from "../../part/time.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { type ProcessNode, ProcessTreeBuilder } from "../../../../lib/event/mod.ts";
import { ApiError } from "../../api/client.ts";

/** The event that waits, with what led to it; secrets in it are refs. */
export function AskRequest({ ask }: { ask: AskView }) {
  const event = useSignal<RecordedEvent | undefined>(undefined);
  const context = useSignal<Context | undefined>(undefined);
  const words = text.inbox;
  useEffect(() => {
    act(async () => {
      event.value = (await whenRecorded(() => api.why(ask.session_id, ask.event_id))).event;
      context.value = await contextOf(ask.session_id, event.value);
    });
  }, [ask.ask_id]);
  if (!event.value) return <p>{text.common.loading}</p>;
  return (
    <>
      {event.value.http && <HttpExchange http={event.value.http} />}
      <details open={!event.value.http}>
        <summary>{words.fields}</summary>
        <EventFields value={event.value} />
      </details>
      {context.value && <Programs programs={context.value.programs} />}
      {context.value && <Before events={context.value.before} />}
    </>
  );
}

function Programs({ programs }: { programs: Context["programs"] }) {
  const words = text.inbox;
  return (
    <section aria-label={words.programs}>
      <h3>{words.programs}</h3>
      {programs.length === 0 ? <p class="hint">{words.noProgram}</p> : (
        <ol class="chain">
          {programs.map(({ event_id, pid, command, executable }) => (
            <li key={event_id ?? pid}>
              <code>{command || executable}</code> <span class="hint">{words.pid(pid)}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function Before({ events }: { events: Context["before"] }) {
  const words = text.inbox;
  return (
    <section aria-label={words.before}>
      <h3>{words.before}</h3>
      {events.length === 0 ? <p class="hint">{words.nothingBefore}</p> : (
        <Table
          label={words.before}
          head={[text.timeline.time, text.timeline.event, text.timeline.decision]}
        >
          {events.map((event) => (
            <tr key={event.common.event_id}>
              <td>{timeOf(event.common.timestamp_unix_ms)}</td>
              <th scope="row">{event.common.event_type} {subjectOf(event)}</th>
              <td>{event.decision ?? text.common.none}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

// Finds the history of an event: the programs above it, and the events before it.

/** Pages of a session's programs that are read. */
const PAGES_MAX = 20;
const PAGE_SIZE = 1000;
/** Events before an event that are shown. */
const BEFORE = 10;

/** A program in a chain. */
type Program = Pick<ProcessNode, "event_id" | "pid" | "command" | "executable">;

interface Context {
  /** the program of the event last; none where the VM did not name one */
  programs: Program[];
  /** oldest first */
  before: RecordedEvent[];
}

/** Reads what led to an event. */
async function contextOf(session: string, event: RecordedEvent): Promise<Context> {
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

/** `ms` between two tries: an ask is announced at once, and its event is in the record a moment later. */
const RETRY_MS = 200;
const TRIES_MAX = 10;

/** Reads what needs the event of an ask, once that is recorded. @throws {ApiError} */
export async function whenRecorded<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404 || tries === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
