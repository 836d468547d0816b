import { useSignal } from "@preact/signals";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { Table } from "../../../part/table.tsx";
import { textOf } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { subjectOf } from "../../../part/subject.ts";

/** Decisions of a profile's last session that its present rules would change. */
export function Comparison({ profile }: { profile: string }) {
  const busy = useSignal(false);
  const said = useSignal("");
  const differences = useSignal<Difference[]>([]);
  const words = text.rules.compare;
  const run = async () => {
    busy.value = true;
    differences.value = [];
    try {
      const session = (await api.sessions()).sessions.find(({ profile_id }) => profile_id === profile);
      const events = session ? await decidedEvents(session.id) : [];
      if (!session || events.length === 0) said.value = words.none;
      else {
        const found = await compare(profile, events, (done) => {
          said.value = words.progress(done, events.length);
        });
        differences.value = found;
        said.value = found.length === 0
          ? words.same(events.length, session.name)
          : words.differ(found.length, events.length, session.name);
      }
    } catch (error) {
      said.value = textOf(error);
    }
    busy.value = false;
  };
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      <button type="button" disabled={busy.value} onClick={run}>{words.run}</button>
      <p role="status">{said.value}</p>
      {differences.value.length > 0 && (
        <Table label={words.table} head={[words.event, words.then, words.now]}>
          {differences.value.map(({ id, type, subject, then, now }) => (
            <tr key={id}>
              <th scope="row">
                {type} {subject}
              </th>
              <td>{words.by(then.decision, then.rule)}</td>
              <td>{words.by(now.decision, now.rule)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

// Decisions of a recorded session, made again by the rules of now.

/** Events that are decided again: the last of the session. */
const EVENTS_MAX = 500;
const PAGE_SIZE = "1000";

interface Verdict {
  decision: string;
  rule: string;
}

/** An event that the rules of now decide in another way. */
interface Difference {
  id: string;
  type: string;
  subject: string;
  then: Verdict;
  now: Verdict;
}

/** The last decided events of a session, the oldest first. */
async function decidedEvents(session: string): Promise<RecordedEvent[]> {
  let kept: RecordedEvent[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await api.events(session, { cursor, limit: PAGE_SIZE });
    kept = [...kept, ...page.events.filter(({ decision }) => decision !== undefined)].slice(-EVENTS_MAX);
    cursor = page.next_cursor;
  }
  return kept;
}

/**
 * Asks the rules of a profile about each event again.
 *
 * @param onProgress gets the number of events decided so far
 * @throws {ApiError} of the first event that cannot be decided
 */
async function compare(
  profile: string,
  events: RecordedEvent[],
  onProgress: (done: number) => void,
): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (const [at, event] of events.entries()) {
    const difference = await compareOne(profile, event);
    if (difference) differences.push(difference);
    onProgress(at + 1);
  }
  return differences;
}

async function compareOne(
  profile: string,
  { decision, rule_id, outcome: _, ...event }: RecordedEvent,
): Promise<Difference | undefined> {
  const answer = (await api.evaluate(profile, event)).decision;
  const then = { decision: String(decision), rule: String(rule_id ?? "") };
  const now = { decision: answer.decision, rule: answer.rule.id };
  if (!differs(then, now)) return undefined;
  const { event_id, event_type } = event.common;
  return { id: event_id, type: event_type, subject: subjectOf(event), then, now };
}

/** A record holds a person's answer to an ask; the same rule asking again is no difference. */
function differs(then: Verdict, now: Verdict): boolean {
  if (then.rule !== now.rule) return true;
  return then.decision !== now.decision && now.decision !== "ask";
}
