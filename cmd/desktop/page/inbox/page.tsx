import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { api, type AskAnswer, type AskView, type RecordedEvent } from "../../api/routes.ts";
import { act, asks, connection, notice, vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { choose, hidden, mayAnswer, neighbour, NOTHING, present, reveal, type Shown } from "./shown.ts";
import { query, setQuery } from "../../app/route.ts";
import { answer, ANSWERS } from "./answer.ts";
import { whenRecorded } from "../../part/recorded.ts";
import { lastingAnswers } from "./always.tsx";
import { ScopeChoice } from "./scope.tsx";
import { Expired } from "./expired.tsx";
import { Icon } from "../../part/icon.tsx";
import { Menu } from "../../part/menu.tsx";
import { EventFields, HttpExchange } from "../../part/http.tsx";
import { subjectOf } from "../../part/subject.ts";
import { Table, timeOf } from "../../part/common.tsx";
import { type ProcessNode, ProcessTreeBuilder } from "../../../../lib/event/mod.ts";

/** Asks of all VMs, the newest on top, for a person at the keyboard. New ones wait until they are let in. */
export function InboxPage() {
  const shown = useSignal<Shown>(NOTHING);
  const open = useSignal<string | undefined>(undefined);
  const list = useRef<HTMLUListElement>(null);
  const select = (id: string | undefined) => shown.value = choose(shown.peek(), id, performance.now());
  useSignalEffect(() => {
    const ids = asks.value.map(({ ask_id }) => ask_id);
    shown.value = present(shown.peek(), ids, performance.now());
  });
  // A notification leads to its ask.
  useSignalEffect(() => {
    const { ask } = query.value;
    if (asks.value.some(({ ask_id }) => ask_id === ask)) {
      if (!shown.peek().ids.includes(ask)) letIn();
      select(ask);
      // Once: what comes later moves no choice.
      setQuery({ ask: undefined });
    }
  });
  const toggle = (id: string) => open.value = open.value === id ? undefined : id;
  const letIn = () =>
    shown.value = reveal(shown.peek(), asks.peek().map(({ ask_id }) => ask_id), performance.now());
  const give = (ask: AskView, given: AskAnswer) => {
    if (mayAnswer(shown.peek(), ask.ask_id, performance.now())) return void answer(ask, given);
    notice.value = { text: text.inbox.unread, isError: true };
  };
  // Cards that move, and a page that comes into sight, are read first too.
  const restart = () => shown.value = { ...shown.peek(), since: performance.now() };
  useSignalEffect(() => void (connection.value && restart()));
  useEffect(() => {
    const observer = new ResizeObserver(restart);
    if (list.current) observer.observe(list.current);
    addEventListener("resize", restart);
    document.addEventListener("visibilitychange", restart);
    return () => {
      observer.disconnect();
      removeEventListener("resize", restart);
      document.removeEventListener("visibilitychange", restart);
    };
  }, []);
  // Before the paint: no key that is pressed at the first sight of an ask is lost.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const ask = asks.peek().find(({ ask_id }) => ask_id === shown.peek().chosen);
      if (isTyping(event) || document.querySelector("dialog[open], [role=menu]")) return;
      if (event.key === "n") letIn();
      else if (!ask) return;
      else if (event.key === "j") select(neighbour(shown.peek(), 1));
      else if (event.key === "k") select(neighbour(shown.peek(), -1));
      // A key that is held down answers once.
      else if (event.repeat) return;
      else if (event.key === "a") give(ask, ANSWERS.once);
      else if (event.key === "d") give(ask, ANSWERS.deny);
      else if (event.key === "Enter") toggle(ask.ask_id);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const words = text.inbox;
  const pending = new Map(asks.value.map((ask) => [ask.ask_id, ask]));
  const cards = shown.value.ids.flatMap((id) => pending.get(id) ?? []);
  const behind = hidden(shown.value, [...pending.keys()]);
  return (
    <>
      <div class="head inbox">
        <h1>{text.page.inbox}</h1>
        {behind > 0 && <button type="button" class="ask" onClick={letIn}>{words.newcomers(behind)}</button>}
        <NotifyButton />
      </div>
      <p class="hint keys">{words.keys}</p>
      <div role="status" class="hidden">{words.waiting(pending.size)}</div>
      {cards.length === 0 && <p class="empty">{words.empty}</p>}
      <ul class="asks" ref={list} aria-label={words.list} hidden={cards.length === 0}>
        {cards.map((ask) => (
          <AskCard
            key={ask.ask_id}
            ask={ask}
            isChosen={ask.ask_id === shown.value.chosen}
            isOpen={open.value === ask.ask_id}
            onAnswer={(given) => give(ask, given)}
            onChoose={() => select(ask.ask_id)}
            onToggle={() => toggle(ask.ask_id)}
          />
        ))}
      </ul>
      <Expired />
    </>
  );
}

/** Tests whether a key belongs to a control rather than to the page. */
function isTyping({ target, ctrlKey, metaKey, altKey, key }: KeyboardEvent): boolean {
  const name = (target as HTMLElement).tagName;
  return ctrlKey || metaKey || altKey || ["INPUT", "TEXTAREA", "SELECT"].includes(name) ||
    (key === "Enter" && ["BUTTON", "A"].includes(name));
}

/** Asks the browser for permission to notify. */
function NotifyButton() {
  const state = useSignal(globalThis.Notification?.permission ?? "denied");
  if (state.value !== "default") return null;
  const request = async () => state.value = await Notification.requestPermission();
  return <button type="button" onClick={request}>{text.inbox.notify}</button>;
}

interface Props {
  ask: AskView;
  isChosen: boolean;
  isOpen: boolean;
  onAnswer: (given: AskAnswer) => void;
  /** the keyboard came to a control of the card */
  onChoose: () => void;
  onToggle: () => void;
}

/** One ask: the requested action, why it waits, and the scope of each answer. */
function AskCard({ ask, isChosen, isOpen, onAnswer, onChoose, onToggle }: Props) {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) element.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  const words = text.inbox;
  return (
    <li
      ref={element}
      class={isChosen ? "ask chosen" : "ask"}
      aria-current={isChosen ? "true" : undefined}
      onFocusIn={({ target }) => (target as HTMLElement).matches(":focus-visible") && onChoose()}
    >
      <h2>{ask.subject}</h2>
      <dl>
        <dt>{words.vm}</dt>
        <dd>{vmNames.value.get(ask.session_id) ?? ask.session_id}</dd>
        <dt>{words.rule}</dt>
        <dd>{ask.rule_id}</dd>
        {ask.reason && <dt>{words.reason}</dt>}
        {ask.reason && <dd>{ask.reason}</dd>}
        {ask.why && <dt>{words.why}</dt>}
        {ask.why && <dd>{JSON.stringify(ask.why)}</dd>}
        {ask.covers && <dt>{words.covers}</dt>}
        {ask.covers && <dd>{ask.covers}</dd>}
      </dl>
      {!ask.covers && <p class="hint">{words.onlyThis}</p>}
      <Countdown until={ask.expires_at} />
      <div class="buttons">
        <button
          type="button"
          class="main"
          onClick={() => onAnswer(ANSWERS.once)}
        >
          {words.once}
        </button>
        <Menu label={words.longer} items={lastingAnswers(ask, onAnswer)}>
          {words.allow} <Icon name="down" />
        </Menu>
        <button
          type="button"
          class="danger"
          onClick={() => onAnswer(ANSWERS.deny)}
        >
          {words.deny}
        </button>
        <button type="button" aria-expanded={isOpen} onClick={onToggle}>{words.request}</button>
      </div>
      {ask.covers && <ScopeChoice ask={ask} onAnswer={onAnswer} />}
      {isOpen && <AskRequest ask={ask} />}
    </li>
  );
}

/** Seconds until an ask is denied automatically. */
function Countdown({ until }: { until: string }) {
  const left = () => Math.max(0, Math.round((Date.parse(until) - Date.now()) / 1000));
  const seconds = useSignal(left());
  useEffect(() => {
    const timer = setInterval(() => seconds.value = left(), 1000);
    return () => clearInterval(timer);
  }, [until]);
  return <p class="hint">{text.inbox.expires(seconds.value)}</p>;
}

/** The event that waits, with what led to it; secrets in it are refs. */
function AskRequest({ ask }: { ask: AskView }) {
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
