import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Evidence } from "../../api/routes.ts";
import { useLoaded } from "../../part/load.ts";
import { act, textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { backtest } from "./backtest.ts";
import { Table } from "../../part/table.tsx";
import { dateOf } from "../../part/time.ts";

/** A detection that is not active: checked, run over a recorded session, or added. */
export function TryDetection({ onAdded }: { onAdded: () => void }) {
  const sessions = useLoaded(api.sessions).value.value?.sessions ?? [];
  const session = useSignal<string | undefined>(undefined);
  const source = useSignal(EXAMPLE);
  const said = useSignal<string[]>([]);
  const evidence = useSignal<Evidence | undefined>(undefined);
  /** the backtest that runs */
  const running = useSignal<AbortController | undefined>(undefined);
  useEffect(() => () => running.value?.abort(), []);
  const words = text.detections.draft;
  const chosen = session.value ?? sessions[0]?.id;

  /** Runs one of the actions; errors are shown beside it. */
  const run = (work: () => Promise<string[]>) => async () => {
    evidence.value = undefined;
    try {
      said.value = await work();
    } catch (error) {
      said.value = [error instanceof SyntaxError ? words.notJson : textOf(error)];
    }
  };
  const hunt = run(async () => {
    const draft = draftOf(source.value);
    if (chosen === undefined) return [words.none];
    evidence.value = await api.hunt(chosen, "pack" in draft ? draft : { rules: [draft.rule] });
    return [words.found(evidence.value.total_matches)];
  });
  const test = run(async () => {
    const draft = draftOf(source.value);
    if (chosen === undefined) return [words.none];
    const control = running.value = new AbortController();
    let last = words.tested(0, 0);
    try {
      await backtest(chosen, draft, (state) => {
        evidence.value = state.evidence;
        last = words.tested(state.tested, state.matches);
        said.value = [words.testing(last)];
      }, control.signal);
    } catch (error) {
      if (!control.signal.aborted) throw error;
      return [words.stopped(last)];
    } finally {
      running.value = undefined;
    }
    return [last];
  });
  const validate = run(async () => {
    const draft = draftOf(source.value);
    if (!("pack" in draft)) return [words.needsPack];
    const { ok, diagnostics } = await api.validatePack(draft.pack);
    return ok ? [words.valid] : diagnostics.map(({ path, message }) => `${path}: ${message}`);
  });
  const add = run(async () => {
    const { rule } = await api.addDetection(draftOf(source.value));
    await act(async () => {}, words.added(rule.id));
    onAdded();
    return [];
  });
  return (
    <section aria-label={words.title}>
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
        <label>
          {words.session}{" "}
          <select value={chosen} onChange={({ currentTarget }) => session.value = currentTarget.value}>
            {sessions.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
          </select>
        </label>
        <button type="button" onClick={hunt}>{words.hunt}</button>
        {running.value
          ? <button type="button" onClick={() => running.value?.abort()}>{words.stop}</button>
          : <button type="button" onClick={test}>{words.backtest}</button>}
        <button type="button" onClick={validate}>{words.validate}</button>
        <button type="button" onClick={add}>{words.add}</button>
      </div>
      <div role="status">{said.value.map((line, at) => <p key={at}>{line}</p>)}</div>
      {evidence.value && evidence.value.rows.length > 0 && <EvidenceTable evidence={evidence.value} />}
    </section>
  );
}

/** Evidence of a hunt: the event, the rule, and the values that matched. */
function EvidenceTable({ evidence: { rows, truncated } }: { evidence: Evidence }) {
  const words = text.detections.draft;
  return (
    <>
      <Table label={words.table} head={[words.event, text.detections.rule, words.fields, words.time]}>
        {rows.map(({ event_ref, rule_id, matched_fields }) => (
          <tr key={event_ref.event_id + rule_id}>
            <th scope="row">{event_ref.event_id}</th>
            <td>{rule_id}</td>
            <td>
              {matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`).join("; ")}
            </td>
            <td>{dateOf(event_ref.timestamp_unix_ms)}</td>
          </tr>
        ))}
      </Table>
      {truncated && <p class="hint">{words.truncated}</p>}
    </>
  );
}

/** Kinds of detection that a person can try. */
type Draft = { pack: Record<string, unknown> } | { rule: Record<string, unknown> };

/** Reads a detection; the service checks it. @throws {SyntaxError} when the text is no JSON object */
function draftOf(source: string): Draft {
  const value = JSON.parse(source);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new SyntaxError("no object");
  return "schema" in value ? { pack: value } : { rule: value };
}

/** A rule that matches requests to one host. */
const EXAMPLE = JSON.stringify(
  {
    id: "my-hosts",
    source_id: "my-hosts",
    title: "A request to a host of mine",
    event_family: "http",
    condition: "selection",
    matchers: [{
      field_path: "http.request.host",
      operator: "equals_any",
      values: ["example.com"],
      sigma_field: "host",
    }],
    severity: "low",
    confidence: "high",
    tags: [],
  },
  undefined,
  2,
);
