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
import { type Context, contextOf } from "./context.ts";
import { whenRecorded } from "./recorded.ts";

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
