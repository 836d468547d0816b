/** Form for one rule, with the linter's remarks, its effect on recorded events, and a simulator. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError } from "../../api/client.ts";
import { api, type RuleDraft, type RuleEffect, type RuleTable, type RuleView } from "../../api/routes.ts";
import { CodeField } from "../../part/code/field.tsx";
import { Dialog } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { When } from "../../part/time.tsx";
import { SentenceBuilder } from "./builder.tsx";
import { act, textOf, vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { allOf } from "../../../../lib/base/list/mod.ts";
import type { Mark } from "../../part/code/editor.ts";

interface Props {
  profile: string;
  title: string;
  /** the rule to begin with */
  subject: Subject;
  /** why it cannot be saved */
  lock?: keyof typeof text.rules.editor.locked;
  /** whether there is a rule of the profile that can be deleted */
  isSaved?: boolean;
  /** edits a rule of the profile; otherwise it is new */
  replaces?: boolean;
  /** the rule as it is, where the subject is a draft to take its place */
  before?: RuleTable;
  /** session that the rule is tried on at once */
  session?: string;
  /**
   * gets the rule that another author has saved meanwhile, once a person wants it instead of the own draft
   */
  onNewer?: (rule: RuleView) => void;
  onSaved: () => void;
  onClose: () => void;
}

/** One rule in a form, with the linter's remarks and its effect; another owner's rule cannot be saved. */
export function RuleEditor(
  { profile, title, subject, lock, isSaved, replaces = isSaved, before, session, onNewer, onSaved, onClose }:
    Props,
) {
  const form = useRef<HTMLFormElement>(null);
  const match = useSignal(subject.rule?.match ?? "");
  const error = useSignal<string | undefined>(undefined);
  const removing = useSignal(false);
  const digest = useSignal(subject.digest);
  const newer = useSignal<RuleView | undefined>(undefined);
  const remarks = useRemarks(profile);
  const words = text.rules.editor;
  const read = () => draftOf(form.current!, match.peek(), subject);
  const changed = () => void (!lock && match.peek().trim() !== "" && remarks.check(read));
  useEffect(changed, []);
  const write = (value: string) => {
    match.value = value;
    changed();
  };
  const done = () => {
    onSaved();
    onClose();
  };
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    error.value = undefined;
    try {
      const { rule_id, rule } = read();
      await (replaces
        ? api.putRule(profile, rule_id, rule, digest.value)
        : api.createRule(profile, { rule_id, rule }));
      await act(async () => {}, words.saved(rule_id));
      done();
    } catch (failure) {
      await refuse(failure);
    }
  };
  const refuse = async (failure: unknown) => {
    const isNewer = failure instanceof ApiError && failure.code === "policy.change.conflict";
    if (isNewer) await act(async () => newer.value = await api.rule(profile, subject.rule_id!));
    else error.value = failure instanceof SyntaxError ? words.notJson : textOf(failure);
  };
  const saveOver = () => {
    digest.value = newer.value!.digest;
    newer.value = undefined;
    form.current!.requestSubmit();
  };
  const remove = async (id: string) => {
    removing.value = false;
    try {
      await api.deleteRule(profile, id, digest.value);
      await act(async () => {}, words.removed(id));
      done();
    } catch (failure) {
      await refuse(failure);
    }
  };
  const draft = useSignal(0);
  return (
    <Dialog title={title} onClose={onClose}>
      <div class={lock ? "rule-parts locked" : "rule-parts"}>
        <form ref={form} onSubmit={save} onInput={() => [changed(), draft.value++]} class="rule">
          {lock && (
            <p class="lock">
              <Icon name="lock" /> {words.locked[lock]}
            </p>
          )}
          {before && (
            <p class="rule-now">
              {words.now} <span class={`pill ${before.action}`}>{before.action}</span>{" "}
              <code>{before.match}</code>
            </p>
          )}
          <fieldset disabled={lock !== undefined} class="pair">
            <RuleFields {...subject} />
          </fieldset>
          {!lock && <SentenceBuilder match={match.value} onChange={write} />}
          <CodeField
            label={words.match}
            value={match.value}
            isReadOnly={lock !== undefined}
            marks={remarks.list.value ?? []}
            onChange={write}
          />
          {!lock && <RemarkList remarks={remarks.list.value} />}
          <details open={lock !== undefined}>
            <summary>{words.more}</summary>
            <fieldset disabled={lock !== undefined} class="pair">
              <OptionalFields {...subject} />
            </fieldset>
          </details>
          {error.value && <p class="error" role="alert">{error.value}</p>}
          {newer.value && <Newer rule={newer.value} onTake={onNewer} onSaveOver={saveOver} />}
          {removing.value && subject.rule_id && (
            <p role="alert">
              {words.removeLoss}{" "}
              <button type="button" class="danger" onClick={() => remove(subject.rule_id!)}>
                {words.removeTitle(subject.rule_id)}
              </button>
            </p>
          )}
          <div class="buttons end">
            {isSaved && !lock && (
              <button type="button" class="danger" onClick={() => removing.value = true}>
                {words.remove}
              </button>
            )}
            <button type="button" onClick={onClose}>{words.close}</button>
            {!lock && <button type="submit" class="main">{words.save}</button>}
          </div>
        </form>
        {!lock && (
          <aside>
            <DraftEffect
              profile={profile}
              read={read}
              session={session}
              draft={`${match.value} ${draft.value}`}
              isEmpty={match.value.trim() === ""}
            />
            <details>
              <summary>{text.rules.simulator.draft}</summary>
              <Simulator profile={profile} read={read} />
            </details>
          </aside>
        )}
      </div>
    </Dialog>
  );
}

/** The rule that took the place of the one that was opened: a person sees it before a draft replaces it. */
function Newer(
  { rule, onTake, onSaveOver }: {
    rule: RuleView;
    onTake: ((rule: RuleView) => void) | undefined;
    onSaveOver: () => void;
  },
) {
  const words = text.rules.newer;
  return (
    <div role="alert" class="newer">
      <p>{rule.enabled ? words.is : words.isOff}</p>
      <p>
        <span class={`pill ${rule.action}`}>{rule.action}</span> <code>{rule.match}</code>
      </p>
      <div class="buttons">
        {onTake && <button type="button" onClick={() => onTake(rule)}>{words.take}</button>}
        <button type="button" class="danger" onClick={onSaveOver}>{words.saveOver}</button>
      </div>
    </div>
  );
}

const ACTIONS = allOf<RuleTable["action"]>()("block", "ask", "rewrite", "allow", "observe");
const LEVELS = allOf<NonNullable<RuleTable["detection_level"]>>()(
  "informational",
  "low",
  "medium",
  "high",
  "critical",
);
const PROTOCOLS = allOf<NonNullable<RuleTable["protocol"]>>()(
  "amqp",
  "git",
  "imap",
  "ldap",
  "mongodb",
  "mqtt",
  "mysql",
  "nats",
  "pop3",
  "postgres",
  "redis",
  "smtp",
  "ssh",
  "tls",
);

/** Id and action of a rule, as fields of a form. */
function RuleFields({ rule_id, suggested, rule }: Subject) {
  const words = text.rules.editor;
  return (
    <>
      {rule_id === undefined && (
        <label>
          {words.id}
          <input name="id" required autocomplete="off" defaultValue={suggested} />
        </label>
      )}
      <label>
        {words.action}
        <select name="action">
          {ACTIONS.map((action) => (
            <option key={action} selected={action === (rule?.action ?? "ask")}>{action}</option>
          ))}
        </select>
      </label>
    </>
  );
}

/** The keys that a rule may have. */
function OptionalFields({ rule }: Subject) {
  const words = text.rules.editor;
  return (
    <>
      <label>
        {words.name}
        <input name="name" autocomplete="off" defaultValue={rule?.name ?? ""} />
      </label>
      <label>
        {words.reason}
        <input name="reason" autocomplete="off" defaultValue={rule?.reason ?? ""} />
      </label>
      <label>
        {words.priority}
        <input name="priority" type="number" defaultValue={rule?.priority ?? ""} />
      </label>
      <label>
        {words.timeout}
        <input name="ask_timeout" type="number" min="1" defaultValue={rule?.ask_timeout ?? ""} />
      </label>
      <label>
        {words.protocol}
        <select name="protocol">
          <option value="">{words.anyProtocol}</option>
          {PROTOCOLS.map((protocol) => (
            <option key={protocol} selected={protocol === rule?.protocol}>{protocol}</option>
          ))}
        </select>
      </label>
      <label>
        {words.level}
        <select name="detection_level">
          <option value="">{words.noLevel}</option>
          {LEVELS.map((level) => (
            <option key={level} selected={level === rule?.detection_level}>{level}</option>
          ))}
        </select>
      </label>
      <label>
        {words.rewrite}
        <textarea
          name="rewrite"
          rows={3}
          spellcheck={false}
          class="code"
          defaultValue={rule?.rewrite ? JSON.stringify(rule.rewrite, undefined, 2) : ""}
        />
      </label>
    </>
  );
}

// A rule that is written in a form.

/** Id of a new rule before it has one. */
const UNNAMED = "new-rule";

/** A rule to begin with; of a new one, the id may be changed. */
interface Subject {
  rule_id?: string;
  /** an id that a new rule may have */
  suggested?: string;
  rule?: RuleTable;
  /** of the rule as it was read */
  digest?: string;
}

/** The rule of a form. @throws {SyntaxError} when the rewrites are not JSON */
function draftOf(element: HTMLFormElement, match: string, subject: Subject): RuleDraft {
  const form = new FormData(element);
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string) => word(name) === undefined ? undefined : Number(word(name));
  return {
    rule_id: subject.rule_id ?? word("id") ?? UNNAMED,
    rule: {
      name: word("name"),
      action: form.get("action") as RuleTable["action"],
      match,
      enabled: subject.rule?.enabled ?? true,
      priority: number("priority"),
      detection_level: word("detection_level") as RuleTable["detection_level"],
      reason: word("reason"),
      ask_timeout: number("ask_timeout"),
      protocol: word("protocol") as RuleTable["protocol"],
      rewrite: word("rewrite") === undefined ? undefined : JSON.parse(word("rewrite")!),
    },
  };
}

/** `ms` after the last key before the linter is asked. */
const WAIT_MS = 300;

/** Shows the linter's remarks on a draft. */
interface Remarks {
  list: ReadonlySignal<Mark[] | undefined>;
  /** Asks the linter about a draft, once its author pauses. */
  check: (read: () => RuleDraft) => void;
}

/** The linter's remarks on a draft of a profile, updated as it is edited. */
function useRemarks(profile: string): Remarks {
  const list = useSignal<Mark[] | undefined>(undefined);
  const timer = useRef(0);
  const round = useRef(0);
  const run = async (read: () => RuleDraft) => {
    const mine = ++round.current;
    let found: Mark[];
    try {
      found = (await api.tryRule(profile, read())).lints;
    } catch (error) {
      const message = error instanceof SyntaxError ? text.rules.editor.notJson : textOf(error);
      found = [{ severity: "error", message }];
    }
    if (mine === round.current) list.value = found;
  };
  const check = (read: () => RuleDraft) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => run(read), WAIT_MS) as unknown as number;
  };
  return { list, check };
}

/** The remarks as a list. */
export function RemarkList({ remarks }: { remarks: Mark[] | undefined }) {
  return (
    <section aria-label={text.rules.lints} aria-live="polite">
      {remarks?.length === 0 && <p class="hint">{text.rules.noLints}</p>}
      {remarks && remarks.length > 0 && (
        <ul class="issues">
          {remarks.map(({ severity, message }) => <li key={message} class={severity}>{message}</li>)}
        </ul>
      )}
    </section>
  );
}

interface EffectProps {
  profile: string;
  read: () => RuleDraft;
  /** the session to try it on; absent: every one of the profile */
  session?: string;
  /** grows with each change of the draft */
  draft: string;
  isEmpty: boolean;
}

/** `ms` after the last key before a draft is tried. */
const TRY_MS = 600;
/** `ms` of events that a draft is tried on. */
const TRIED_MS = 7 * 24 * 3600 * 1000;
/** Most events that are listed: the newest ones. */
const LISTED_MAX = 100;

/** Shows, while a draft is written, which recorded decisions it changes. */
function DraftEffect({ profile, read, session, draft, isEmpty }: EffectProps) {
  const said = useSignal("");
  const effect = useSignal<RuleEffect | undefined>(undefined);
  const words = text.rules.effect;
  useEffect(() => {
    if (isEmpty) return void ([said.value, effect.value] = [words.unwritten, undefined]);
    let isOver = false;
    const run = async () => {
      const tried = await effectOfDraft(profile, read, session);
      if (!isOver) [said.value, effect.value] = [tried.said, tried.effect];
    };
    const timer = setTimeout(run, TRY_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [profile, session, draft]);
  const { changes = [], differences = [], different = 0 } = effect.value ?? {};
  return (
    <section aria-label={words.title} class="effect">
      <h3>{words.title}</h3>
      <p role="status">{said.value}</p>
      {changes.length > 0 && (
        <ul class="plain turns">
          {changes.map(({ from, to, count }) => (
            <li key={`${from} ${to}`}>
              <span class={`pill ${from}`}>{from}</span> → <span class={`pill ${to}`}>{to}</span>{" "}
              <strong>{count.toLocaleString("en")}</strong>
            </li>
          ))}
        </ul>
      )}
      {differences.length > 0 && (
        <ul class="plain scroll" tabIndex={0} aria-label={words.table}>
          {differences.toReversed().map((difference) => (
            <Changed key={difference.event_id} {...difference} />
          ))}
        </ul>
      )}
      {different > differences.length && (
        <p class="hint">{words.unlisted(differences.length, different - differences.length)}</p>
      )}
    </section>
  );
}

/** An event that a draft decides in another way. */
function Changed({ timestamp_unix_ms, subject, before, after }: RuleEffect["differences"][number]) {
  const words = text.rules.effect;
  return (
    <li class="changed">
      <span title={subject}>{subject}</span>
      <span class="hint">
        {words.by(before)} → {words.by(after)} · <When at={timestamp_unix_ms} />
      </span>
    </li>
  );
}

/** Tries a draft, and says its effect in a sentence. */
async function effectOfDraft(
  profile: string,
  read: () => RuleDraft,
  session: string | undefined,
): Promise<{ said: string; effect?: RuleEffect }> {
  try {
    const since = session === undefined ? Date.now() - TRIED_MS : 0;
    const { effect } = await api.tryRule(profile, { ...read(), session, since, limit: LISTED_MAX });
    return { said: saidOf(effect, session && (vmNames.peek().get(session) ?? session)), effect };
  } catch (error) {
    return { said: error instanceof SyntaxError ? text.rules.editor.notJson : textOf(error) };
  }
}

function saidOf(effect: RuleEffect | undefined, name: string | undefined): string {
  const words = text.rules.effect;
  if (effect === undefined) return words.invalid;
  if (effect.decided === 0) return name === undefined ? words.none : words.empty(name);
  const where = name === undefined ? words.days(effect.sessions) : words.of(name);
  const said = effect.different === 0
    ? words.same(effect.decided, where)
    : words.differ(effect.different, effect.decided, where);
  return effect.has_older ? `${said} ${words.older}` : said;
}

/** Samples of events to try, by type. */
const SAMPLES: Record<string, Record<string, unknown>> = {
  "http.request": {
    http: {
      request: {
        method: "GET",
        scheme: "https",
        host: "example.com",
        port: 443,
        path: "/",
        query: "",
        headers: {},
      },
    },
  },
  "dns.query": { dns: { request: { qname: "example.com", qtype: "A" } } },
  "mcp.tool_call": { mcp: { request: { server_id: "server", tool_name: "tool", arguments: {} } } },
  "model.call": { model: { request: { provider: "anthropic", model: "claude" } } },
  "file.activity": { file: { activity: { operation: "write", path: "/root/.bashrc" } } },
  "process.exec": {
    process: { activity: { operation: "exec", executable: "/usr/bin/curl", command: "curl" } },
  },
};

const TYPES = Object.keys(SAMPLES);

/**
 * Asks the rules about one event, which happens nowhere.
 * @param read a rule that is not saved, to decide too
 */
export function Simulator({ profile, read }: { profile: string; read?: () => RuleDraft }) {
  const event = useSignal(sampleOf(TYPES[0]));
  const answer = useSignal<string[]>([]);
  const words = text.rules.simulator;
  const run = async () => {
    try {
      const { decision, findings, failures } = await api.evaluate(profile, JSON.parse(event.value), read?.());
      answer.value = [
        words.decided(decision.decision, decision.rule.id, decision.remedy),
        ...decision.near_misses.map(({ rule_id, failed }) => words.nearMiss(rule_id, failed)),
        ...findings.map(({ severity, title }) => words.finding(severity, title)),
        ...failures.map(({ rule_id, message }) => words.failure(rule_id, message)),
      ];
    } catch (error) {
      answer.value = [error instanceof SyntaxError ? words.notJson : textOf(error)];
    }
  };
  return (
    <section aria-label={read ? words.draft : words.title}>
      {!read && <h2>{words.title}</h2>}
      <p>
        <label>
          {words.sample}{" "}
          <select onChange={({ currentTarget }) => event.value = sampleOf(currentTarget.value)}>
            {TYPES.map((type) => <option key={type}>{type}</option>)}
          </select>
        </label>
      </p>
      <textarea
        class="wide"
        aria-label={words.event}
        rows={12}
        spellcheck={false}
        value={event.value}
        onInput={({ currentTarget }) => event.value = currentTarget.value}
      />
      <div class="buttons">
        <button type="button" onClick={run}>{words.decide}</button>
      </div>
      <div role="status">{answer.value.map((line, at) => <p key={at}>{line}</p>)}</div>
    </section>
  );
}

function sampleOf(type: string): string {
  return JSON.stringify({ common: { event_type: type }, ...SAMPLES[type] }, undefined, 2);
}
