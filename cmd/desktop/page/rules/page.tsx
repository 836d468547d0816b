import { useSignal } from "@preact/signals";
import {
  api,
  type RecordedEvent,
  type RuleChangeView,
  type RuleList,
  type RuleView,
} from "../../api/routes.ts";
import { ChangeTable, ProfileChoice, Table, useProfile } from "../../part/common.tsx";
import { text } from "../../text/en.ts";
import { RemarkList, RuleEditor, Simulator } from "./editor.tsx";
import { act, textOf, useLoaded } from "../../store/store.ts";
import { useEffect } from "preact/hooks";
import { query, setQuery } from "../../app/route.ts";
import { ofNewest } from "../../part/newest.ts";
import { subjectOf } from "../../part/subject.ts";

/** The rules of a profile, of corp and the defaults, in order of decision. */
export function RulesPage() {
  const profile = useProfile();
  const profiles = useLoaded(api.profiles);
  const { value, reload } = useLoaded(() => api.rules(profile.value), [profile.value]);
  /** `new`: a rule that is not there yet */
  const open = useSignal<RuleView | "new" | undefined>(undefined);
  // A link names a rule: its editor opens once its profile's rules are there.
  const { rule: wanted } = query.value;
  useEffect(() => {
    const named = [...value.value?.rules ?? [], ...value.value?.disabled ?? []].find(({ id }) =>
      id === wanted
    );
    if (named) open.value = named;
    if (named) setQuery({ rule: undefined });
  }, [wanted, value.value]);
  const hits = useLoaded(() => hitsOf(profile.value), [profile.value]).value.value;
  const words = text.rules;
  const isBuiltin =
    profiles.value.value?.profiles.find(({ id }) => id === profile.value)?.source === "builtin";
  const editable = new Set(value.value?.editable);
  const turn = async (
    { id, name, digest, layer: _, file: _file, line: _line, narrows: _narrows, ...rule }: RuleView,
  ) => {
    const enabled = !rule.enabled;
    const table = { ...rule, enabled, name: name === id ? undefined : name };
    const done = enabled ? words.turnedOn(id) : words.turnedOff(id);
    await act(() => api.putRule(profile.value, id, table, digest), done);
    // Refused, it is a newer rule, which is shown then.
    reload();
  };
  return (
    <>
      <div class="head">
        <h1>{text.page.rules}</h1>
        <ProfileChoice chosen={profile} />
        <button type="button" class="main" onClick={() => open.value = "new"}>{words.add}</button>
      </div>
      <p class="lead">{isBuiltin ? words.builtin : words.about}</p>
      {value.value && <Outdated vms={value.value.vms} onReloaded={reload} />}
      <RemarkList
        remarks={value.value?.lints.map(({ rule_id, severity, message }) => ({
          severity,
          message: `${rule_id}: ${message}`,
        }))}
      />
      {open.value && (
        <RuleEditor
          key={open.value === "new" ? "" : open.value.digest}
          profile={profile.value}
          {...(open.value === "new" ? { title: words.editor.fresh, subject: {} } : shownOf(open.value))}
          lock={open.value === "new" ? undefined : lockOf(editable, open.value)}
          onNewer={(rule) => open.value = rule}
          onSaved={reload}
          onClose={() => open.value = undefined}
        />
      )}
      <RuleTable
        label={words.table}
        rules={value.value?.rules ?? []}
        hits={hits}
        editable={editable}
        onOpen={(rule) => open.value = rule}
        onSwitch={turn}
      />
      {value.value && value.value.disabled.length > 0 && (
        <section aria-label={words.off}>
          <h2>{words.off}</h2>
          <RuleTable
            label={words.off}
            rules={value.value.disabled}
            editable={editable}
            onOpen={(rule) => open.value = rule}
            onSwitch={turn}
          />
        </section>
      )}
      <Changes profile={profile.value} rules={value.value} onUndone={reload} />
      <Comparison key={profile.value} profile={profile.value} />
      <Simulator profile={profile.value} />
    </>
  );
}

/** `ms` of events that are counted by rule. */
const HITS_MS = 7 * 24 * 3600 * 1000;

async function hitsOf(profile: string): Promise<Map<string, number>> {
  const { rules } = await api.ruleHits(profile, Date.now() - HITS_MS);
  return new Map(rules.map(({ rule_id, events }) => [rule_id, events]));
}

/** Who else owns a rule. */
function lockOf(editable: ReadonlySet<string>, { id, layer }: RuleView) {
  if (layer !== "profile") return layer;
  return editable.has(id) ? undefined : "builtin";
}

/** An active rule, for the editor; a name equal to the id was not written by a person. */
function shownOf({ id, name, digest, ...rule }: RuleView) {
  const subject = { rule_id: id, rule: { ...rule, name: name === id ? undefined : name }, digest };
  return { title: text.rules.editor.title(id), subject, isSaved: true };
}

/** Running VMs that decide by older rules, each with the way to these. */
function Outdated({ vms, onReloaded }: { vms: RuleList["vms"]; onReloaded: () => void }) {
  const words = text.rules;
  const reload = async (id: string, name: string) => {
    await act(() => api.reloadRules(id), words.reloaded(name));
    onReloaded();
  };
  return (
    <>
      {vms.filter(({ outdated }) => outdated).map(({ id, name }) => (
        <p key={id} class="warning">
          {words.outdated(name)}{" "}
          <button type="button" onClick={() => reload(id, name)}>{words.reload(name)}</button>
        </p>
      ))}
    </>
  );
}

interface Props {
  profile: string;
  /** the rules of now: read again after they change */
  rules: RuleList | undefined;
  onUndone: () => void;
}

/** The recorded changes of a profile's rules, each of which can be undone. */
function Changes({ profile, rules, onUndone }: Props) {
  const { value } = useLoaded(() => api.changes(profile), [profile, rules]);
  const words = text.rules.changes;
  const list = (value.value?.changes ?? []).filter((change) => change.kind === "rule");
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      {list.length === 0 ? <p class="hint">{words.none}</p> : (
        <ChangeTable
          label={words.table}
          head={text.rules.rule}
          changes={list}
          idOf={({ rule_id }) => rule_id}
          draw={(rule) => <Rule rule={rule} />}
          onUndone={onUndone}
        />
      )}
    </section>
  );
}

function Rule({ rule }: { rule: RuleChangeView["after"] }) {
  if (!rule) return <>{text.rules.changes.absent}</>;
  const { action, match, enabled: _, ...rest } = rule;
  const more = Object.entries(rest).filter(([, value]) => value !== undefined);
  return (
    <>
      {action} <code>{match}</code>
      {more.length > 0 && <p class="hint">{JSON.stringify(Object.fromEntries(more))}</p>}
    </>
  );
}

interface TableProps {
  label: string;
  rules: RuleView[];
  /** events of the last days by rule; absent until they are counted */
  hits?: ReadonlyMap<string, number>;
  /** ids of the rules that can be changed here */
  editable: ReadonlySet<string>;
  onOpen: (rule: RuleView) => void;
  /** turns one of the person's own rules off, or on again */
  onSwitch: (rule: RuleView) => void;
}

/** The rules, the first to decide on top. */
function RuleTable({ label, rules, hits, editable, onOpen, onSwitch }: TableProps) {
  const words = text.rules;
  return (
    <Table
      label={label}
      head={[
        words.order,
        words.rule,
        words.action,
        words.layer,
        { number: words.priority },
        { number: words.hits },
        words.match,
        words.actions,
      ]}
    >
      {rules.map((rule, at) => {
        const { id, layer, priority, action, match, reason, file, line } = rule;
        const canEdit = layer === "profile" && editable.has(id);
        return (
          <tr key={`${layer} ${id}`} class={rule.enabled ? undefined : "off"}>
            <td>{rule.enabled ? at + 1 : text.common.none}</td>
            <th scope="row">
              {id}
              {reason && <p class="hint">{reason}</p>}
            </th>
            <td>
              <span class={`pill ${action}`}>{action}</span>
            </td>
            <td>{words.layers[layer]}</td>
            <td class="number">{priority}</td>
            <td class="number">
              {rule.enabled ? hits?.get(id)?.toLocaleString("en") ?? text.common.none : ""}
            </td>
            <td>
              <code>{match}</code>
              {file && <p class="hint">{text.timeline.at(file, line)}</p>}
            </td>
            <td class="actions">
              <button
                type="button"
                class={canEdit ? undefined : "ghost"}
                aria-label={canEdit ? words.editOf(id) : words.showOf(id)}
                onClick={() => onOpen(rule)}
              >
                {canEdit ? words.edit : words.show}
              </button>
              {canEdit && (
                <button
                  type="button"
                  class="ghost"
                  aria-label={words.turnOf(id, !rule.enabled)}
                  onClick={() => onSwitch(rule)}
                >
                  {rule.enabled ? words.turnOff : words.turnOn}
                </button>
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** Decisions of a profile's last session that its present rules would change. */
function Comparison({ profile }: { profile: string }) {
  const busy = useSignal(false);
  const said = useSignal("");
  const differences = useSignal<Difference[]>([]);
  const words = text.rules.compare;
  const run = async () => {
    busy.value = true;
    differences.value = [];
    try {
      const newest = await ofNewest(profile, async ({ id }) => {
        const events = await decidedEvents(id);
        return events.length > 0 ? events : undefined;
      });
      if (!newest) said.value = words.none;
      else {
        const { session, answer: events } = newest;
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
