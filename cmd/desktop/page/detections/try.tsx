import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type EvidenceResult } from "../../api/routes.ts";
import { hrefOf } from "../../app/route.ts";
import { Table } from "../../part/common.tsx";
import { When } from "../../part/time.tsx";
import { act, textOf, useLoaded, vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { backtest, hunt, type Progress } from "./backtest.ts";
import { type Draft, draftOf, EXAMPLE } from "./draft.ts";

type Session = Awaited<ReturnType<typeof api.sessions>>["sessions"][number];

/** The choice of every session. */
const ALL = "all";

/** A detection that is not active: checked, run over recorded sessions, or turned on. */
export function TryDetection({ onAdded }: { onAdded: () => Promise<unknown> }) {
  const sessions = useLoaded(api.sessions).value.value?.sessions ?? [];
  const session = useSignal<string | undefined>(undefined);
  const source = useSignal(EXAMPLE);
  const words = text.detections.draft;
  const chosen = session.value ?? sessions[0]?.id;
  const { said, evidence, running, run } = useRun(source);

  const search = run(async (draft, show, signal) => {
    if (chosen === undefined) return [words.none];
    const ids = chosen === ALL ? sessions.map(({ id }) => id) : [chosen];
    let last = "";
    await hunt(ids, draft, (state) => {
      last = words.found(state.matches, ids.length, state.failed);
      show(state, words.hunting(state.done, ids.length, state.matches));
    }, signal);
    return [last];
  });
  const test = run(async (draft, show, signal) => {
    if (chosen === undefined || chosen === ALL) return [words.one];
    let last = "";
    await backtest(chosen, draft, (state) => {
      last = words.tested(state.done, state.matches);
      show(state, words.testing(last));
    }, signal);
    return [last];
  });
  const check = run(async (draft) => {
    if ("pack" in draft) {
      const { ok, diagnostics } = await api.validatePack(draft.pack);
      return ok ? [words.valid] : diagnostics.map(({ path, message }) => `${path}: ${message}`);
    }
    // Compiled for no event.
    await api.backtest({ ...draft, events: [] });
    return [words.valid];
  });
  const add = run(async (draft) => {
    const { rule } = await api.addDetection(draft);
    await act(async () => {}, words.added(rule.id));
    await onAdded();
    return [];
  });
  const isBusy = running !== undefined;
  return (
    <section class="try" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      <textarea
        class="wide"
        aria-label={words.source}
        rows={12}
        spellcheck={false}
        value={source.value}
        onInput={({ currentTarget }) => source.value = currentTarget.value}
      />
      <div class="buttons">
        <button type="button" disabled={isBusy} onClick={check}>{words.validate}</button>
        <SessionChoice sessions={sessions} chosen={chosen} choice={session} />
        <button type="button" disabled={isBusy} onClick={search}>{words.hunt}</button>
        {running
          ? <button type="button" onClick={() => running.abort()}>{words.stop}</button>
          : <button type="button" disabled={chosen === ALL} onClick={test}>{words.backtest}</button>}
        <button type="button" class="main" disabled={isBusy} onClick={add}>{words.add}</button>
      </div>
      <div role="status">{said.map((line, at) => <p key={at}>{line}</p>)}</div>
      {evidence && evidence.rows.length > 0 && <EvidenceTable evidence={evidence} sessions={sessions} />}
    </section>
  );
}

function SessionChoice({ sessions, chosen, choice }: {
  sessions: Session[];
  chosen: string | undefined;
  choice: Signal<string | undefined>;
}) {
  return (
    <select
      aria-label={text.detections.draft.session}
      value={chosen}
      onChange={({ currentTarget }) => choice.value = currentTarget.value}
    >
      {sessions.length > 1 && <option value={ALL}>{text.detections.draft.all(sessions.length)}</option>}
      {sessions.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
    </select>
  );
}

/** Shows the state of an action while it runs. */
type Show = (state: Progress, line: string) => void;

/** Runs one action on the draft at a time; its errors are shown beside it. */
function useRun(source: Signal<string>) {
  const said = useSignal<string[]>([]);
  const evidence = useSignal<EvidenceResult | undefined>(undefined);
  const running = useSignal<AbortController | undefined>(undefined);
  const words = text.detections.draft;
  useEffect(() => () => running.peek()?.abort(), []);
  const run = (work: (draft: Draft, show: Show, signal: AbortSignal) => Promise<string[]>) => async () => {
    evidence.value = undefined;
    said.value = [];
    const control = running.value = new AbortController();
    let last = "";
    try {
      said.value = await work(draftOf(source.value), (state, line) => {
        evidence.value = state.evidence;
        last = line;
        said.value = [line];
      }, control.signal);
    } catch (error) {
      said.value = control.signal.aborted
        ? [words.stopped(last)]
        : [error instanceof SyntaxError ? words.notJson : textOf(error)];
    }
    running.value = undefined;
  };
  return { said: said.value, evidence: evidence.value, running: running.value, run };
}

/** Evidence of a hunt: the event, the rule, and the values that matched. */
function EvidenceTable(
  { evidence: { rows, truncated }, sessions }: { evidence: EvidenceResult; sessions: Session[] },
) {
  const words = text.detections.draft;
  return (
    <>
      <Table label={words.table} head={[words.time, words.vm, text.detections.rule, words.fields]}>
        {rows.map(({ event_ref: { session_id, event_id, timestamp_unix_ms }, rule_id, matched_fields }) => {
          const vm = vmNames.value.get(session_id);
          const place = vm === undefined ? hrefOf("session", session_id) : hrefOf("vm", vm, "timeline");
          return (
            <tr key={session_id + event_id + rule_id}>
              <td>
                <a href={`${place}?event=${encodeURIComponent(event_id)}`}>
                  <When at={timestamp_unix_ms} />
                </a>
              </td>
              <td>{vm ?? sessions.find(({ id }) => id === session_id)?.name ?? session_id}</td>
              <th scope="row">{rule_id}</th>
              <td>
                <code>
                  {matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`).join("; ")}
                </code>
              </td>
            </tr>
          );
        })}
      </Table>
      {truncated && <p class="hint">{words.truncated}</p>}
    </>
  );
}
