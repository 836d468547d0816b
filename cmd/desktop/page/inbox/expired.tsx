/**
 * Asks that are over, answers that still count, and rules by which people allowed for
 * good: nothing passes without a trace.
 */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type AskInForce, type RuleChangeView } from "../../api/routes.ts";
import { hrefOf } from "../../app/route.ts";
import { ConfirmButton, dateOf, Table } from "../../part/common.tsx";
import { onMessage } from "../../store/live.ts";
import { act, asks, useLoaded, vmNames } from "../../store/store.ts";
import { now, When } from "../../part/time.tsx";
import { text } from "../../text/en.ts";

/** Most asks that are listed, and `ms` of them; the records have all. */
const OVER_MAX = 50, OVER_MS = 7 * 24 * 3600 * 1000;

/** Number of asks that are over since the page was opened. */
const ended = signal(0);

/** Follows asks from the start of the page, whichever page is shown. */
export function followEnds(): void {
  onMessage(({ type, payload }) => {
    if (type === "ask" && payload.status !== "pending") ended.value++;
  });
}

/** Asks that are over, of all VMs, and rules that "always" made, with their withdrawal. */
export function Expired() {
  return (
    <>
      <InForce />
      <Over />
      <Always />
    </>
  );
}

/** Asks that are over, by their records. */
function Over() {
  const { value } = useLoaded(
    () => api.pastAsks({ since: String(Date.now() - OVER_MS), limit: String(OVER_MAX) }),
    [ended.value],
  );
  const words = text.inbox.over;
  const { asks = [] } = value.value ?? {};
  if (asks.length === 0) return null;
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <Table
        label={words.title}
        head={[words.what, text.inbox.vm, words.end, words.by, text.timeline.time]}
      >
        {asks.map((
          { ask_id, event_id, session_id, subject, vm, status, answer, answered_by, by_rule, resolved_at },
        ) => (
          <tr key={ask_id}>
            <th scope="row">
              <a href={`${placeOf(session_id, vm)}?event=${event_id}`}>{subject}</a>
            </th>
            <td>{vm}</td>
            <td>
              <span class={`pill ask-${status}`}>{words.status[status]}</span>{" "}
              {answer && answer.scope !== "once" && <span class="hint">{words.scope(answer)}</span>}
            </td>
            <td>{answered_by?.user ?? (by_rule ? words.byRule(by_rule) : text.common.none)}</td>
            <td>
              <When at={Date.parse(resolved_at)} />
            </td>
          </tr>
        ))}
      </Table>
      <p class="hint">{words.older(OVER_MAX)}</p>
    </section>
  );
}

/** The timeline of a VM, or of a session that is over. */
function placeOf(session: string, vm: string): string {
  return vmNames.value.has(session) ? hrefOf("vm", vm, "timeline") : hrefOf("session", session, "timeline");
}

/** Answers that cover further events now, for minutes or the session; they end with their VM. */
function InForce() {
  const words = text.inbox.inForce;
  const { value, reload } = useLoaded(api.asksInForce, [ended.value, asks.value.length]);
  const answer = value.value;
  const withdraw = async (ask: AskInForce) => {
    await act(() => api.withdrawAnswer(ask.ask_id), words.withdrawn(coversOf(ask)));
    await reload();
  };
  // Another page, or the command line, may withdraw one too.
  useEffect(() =>
    onMessage(({ type, payload }) => {
      if (type === "security-event" && payload.event.common.labels?.ask === "withdraw") reload();
    }), []);
  // An answer for minutes ends without a message.
  const current = answer?.asks.filter(({ until }) => !until || Date.parse(until) > now.value) ?? [];
  if (current.length === 0) return null;
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <Table
        label={words.title}
        head={[words.covers, words.answer, text.inbox.vm, words.until, words.by, words.actions]}
      >
        {current.map((ask) => (
          <tr key={ask.ask_id}>
            <th scope="row">
              <a href={`${hrefOf("vm", ask.vm, "timeline")}?event=${ask.event_id}`}>{coversOf(ask)}</a>
            </th>
            <td>
              <span class={`pill ask-${ask.answer.decision === "allow" ? "allowed" : "denied"}`}>
                {words.answers[ask.answer.decision]}
              </span>
            </td>
            <td>{ask.vm}</td>
            <td>{ask.until ? <When at={ask.until} /> : words.session}</td>
            <td>{ask.answered_by?.user ?? text.common.none}</td>
            <td>
              <button
                type="button"
                aria-label={words.withdrawOf(coversOf(ask))}
                onClick={() => withdraw(ask)}
              >
                {words.withdraw}
              </button>
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** The events that a lasting answer covers. */
function coversOf(
  { answer: { of, path }, covers, covers_host, covers_path, covers_method, subject }: AskInForce,
) {
  const wide = { host: covers_host, path: path ?? covers_path, method: covers_method };
  return (of ? wide[of] : covers) ?? subject;
}

/**
 * True for a change by which fewer events wait for an answer: a rule that
 * allows, or one that asks about fewer.
 */
function asksLess({ before, after }: RuleChangeView): boolean {
  if (before === undefined) return after?.action === "allow";
  return before.action === "ask" && (after?.action === "allow" || after?.match !== before.match);
}

/** Rules that allow for good, as recorded changes which can be taken back. */
function Always() {
  const { value, reload } = useLoaded(() => api.changes(), [ended.value]);
  const words = text.inbox.over;
  const changes = value.value?.changes ?? [];
  const undone = new Set(changes.flatMap(({ undoes }) => undoes ?? []));
  const made = changes.flatMap((change) =>
    change.kind === "rule" && asksLess(change) && !undone.has(change.change_id) && !change.undoes
      ? [change]
      : []
  );
  if (made.length === 0) return null;
  const withdraw = async (id: string, rule: string) => {
    if (await act(() => api.undoChange(id), words.withdrawn(rule))) await reload();
  };
  return (
    <section aria-label={words.always}>
      <h2>{words.always}</h2>
      <Table
        label={words.always}
        head={[words.rule, words.profile, words.by, text.timeline.time, words.actions]}
      >
        {made.map(({ change_id, rule_id, profile_id, by, at }) => (
          <tr key={change_id}>
            <th scope="row">{rule_id}</th>
            <td>{profile_id}</td>
            <td>{by.user}</td>
            <td>{dateOf(at)}</td>
            <td>
              <ConfirmButton
                label={words.withdraw(rule_id)}
                question={words.withdrawTitle(rule_id)}
                loss={words.withdrawLoss}
                onConfirm={() => withdraw(change_id, rule_id)}
              />
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
