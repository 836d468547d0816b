import { api, type DetectionList, type Evidence } from "../../api/routes.ts";
import { ChangeTable, ConfirmButton, dateOf, Table } from "../../part/common.tsx";
import { act, textOf, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** Active detections, with the number of matches of each; detections never block. */
export function DetectionsPage() {
  const { value, reload } = useLoaded(api.detections);
  const stats = useLoaded(api.detectionStats);
  const sync = stats.value.value?.sync;
  const words = text.detections;
  const turn = async ({ id, enabled, definition }: Switched) => {
    const overlay = { ...inputOf(definition), enabled: !enabled, replace: true };
    await act(() => api.addDetection(overlay), enabled ? words.turnedOff(id) : words.turnedOn(id));
    await reload();
  };
  const remove = async (id: string) => {
    await act(() => api.removeDetection(id), words.removed(id));
    await reload();
  };
  return (
    <>
      <h1>{text.page.detections}</h1>
      {sync && <p class="hint">{words.synced(sync.synced_count, sync.target_count)}</p>}
      {value.value?.rules.length === 0 && <p class="empty">{words.empty}</p>}
      <Table
        label={text.page.detections}
        head={[words.rule, words.pack, words.scope, words.state, words.matches, words.last, words.actions]}
      >
        {value.value?.rules.map((
          { id, pack_id, scope, enabled, compiled, match_count, last_matched_unix_ms, definition },
        ) => (
          <tr key={`${scope} ${id}`}>
            <th scope="row">{id}</th>
            <td>{pack_id}</td>
            <td>{scope}</td>
            <td>{!compiled ? words.broken : enabled ? words.on : words.off}</td>
            <td>{match_count}</td>
            <td>{last_matched_unix_ms ? dateOf(last_matched_unix_ms) : text.common.none}</td>
            <td>
              {scope === "runtime"
                ? (
                  <>
                    <button
                      type="button"
                      onClick={() => turn({ id, enabled, definition })}
                    >
                      {enabled ? words.turnOff(id) : words.turnOn(id)}
                    </button>{" "}
                    <ConfirmButton
                      label={words.remove(id)}
                      question={words.removeTitle(id)}
                      loss={words.removeLoss}
                      onConfirm={() => remove(id)}
                    />
                  </>
                )
                : text.common.none}
            </td>
          </tr>
        ))}
      </Table>
      <TryDetection onAdded={reload} />
      <Changes list={value.value} onUndone={reload} />
    </>
  );
}

type Switched = Pick<DetectionList["rules"][number], "id" | "enabled" | "definition">;

/** The request of an overlay as it was put in: a pack, files of Sigma rules, or a rule. */
function inputOf(definition: unknown): Record<string, unknown> {
  const keys = definition as Record<string, unknown>;
  if ("schema" in keys) return { pack: definition };
  return "files" in keys ? { sigma: definition } : { rule: definition };
}

/** The recorded changes of detections that were put in at run time, each of which can be undone. */
function Changes({ list, onUndone }: { list: DetectionList | undefined; onUndone: () => void }) {
  const { value } = useLoaded(() => api.changes(), [list]);
  const words = text.rules.changes;
  const changes = (value.value?.changes ?? []).filter((change) => change.kind === "detection");
  if (changes.length === 0) return null;
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <ChangeTable
        label={words.tableOfDetections}
        head={text.detections.rule}
        changes={changes}
        idOf={({ detection_id }) => detection_id}
        draw={(overlay) => <Definition value={overlay?.definition} />}
        onUndone={onUndone}
      />
    </section>
  );
}

function Definition({ value }: { value: unknown }) {
  if (value === undefined) return <>{text.common.none}</>;
  return (
    <details>
      <summary>{text.rules.changes.definition}</summary>
      <code>{JSON.stringify(value)}</code>
    </details>
  );
}

/** A detection that is not active: checked, run over a recorded session, or added. */
function TryDetection({ onAdded }: { onAdded: () => void }) {
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

/** Most events and `characters` of events in one request; the service takes 10 MiB. */
const EVENTS_MAX = 500;
const CHARS_MAX = 4 * 1024 * 1024;
const PAGE_SIZE = "1000";
/** Rows that are kept. */
const ROWS_MAX = 200;

/** Progress of a backtest. */
interface Backtest {
  /** events that were tested */
  tested: number;
  /** matching pairs of event and rule */
  matches: number;
  evidence: Evidence;
}

type Fixture = Awaited<ReturnType<typeof api.contexts>>["contexts"][number];

/**
 * Tests a detection on a session.
 *
 * @param detection a pack or a rule
 * @param onProgress gets the state after each part
 * @throws {ApiError}; the signal's reason, when aborted
 */
async function backtest(
  session: string,
  detection: Record<string, unknown>,
  onProgress: (state: Backtest) => void,
  signal: AbortSignal,
): Promise<void> {
  let state: Backtest = { tested: 0, matches: 0, evidence: emptyEvidence() };
  onProgress(state);
  for await (const part of partsOf(session)) {
    signal.throwIfAborted();
    const events = part.map(({ event_ref, context }) => ({ event_ref, context }));
    const found = await api.backtest({ ...detection, events });
    signal.throwIfAborted();
    state = sumOf(state, part.length, found);
    onProgress(state);
  }
}

async function* partsOf(session: string): AsyncGenerator<Fixture[]> {
  let part: Fixture[] = [];
  let chars = 0;
  let cursor: string | undefined;
  do {
    const page = await api.contexts(session, { cursor, limit: PAGE_SIZE });
    for (const fixture of page.contexts) {
      const size = JSON.stringify(fixture.context).length;
      if (part.length === EVENTS_MAX || chars + size > CHARS_MAX && part.length > 0) {
        yield part;
        [part, chars] = [[], 0];
      }
      part.push(fixture);
      chars += size;
    }
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  if (part.length > 0) yield part;
}

/** Adds what one part found; evidence of one signature and rule is shown once. */
function sumOf({ tested, matches, evidence }: Backtest, count: number, found: Evidence): Backtest {
  const known = new Set(evidence.rows.map(keyOf));
  const fresh = found.rows.filter((row) => !known.has(keyOf(row)));
  const rows = [...evidence.rows, ...fresh];
  return {
    tested: tested + count,
    matches: matches + found.total_matches,
    evidence: {
      total_matches: matches + found.total_matches,
      unique_evidence_matches: rows.length,
      truncated: evidence.truncated || found.truncated || rows.length > ROWS_MAX,
      rows: rows.slice(0, ROWS_MAX),
    },
  };
}

const keyOf = ({ rule_id, evidence_signature }: Evidence["rows"][number]) =>
  `${rule_id} ${evidence_signature}`;

function emptyEvidence(): Evidence {
  return { total_matches: 0, unique_evidence_matches: 0, truncated: false, rows: [] };
}
