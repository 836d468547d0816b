import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { AskView } from "../../api/routes.ts";
import { asks, connection, notice, vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { type Answer, answer, ANSWERS } from "./answer.ts";
import { AskCard } from "./card.tsx";
import { choose, hidden, mayAnswer, neighbour, NOTHING, present, reveal, type Shown } from "./shown.ts";
import { onMessage } from "../../store/live.ts";

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
  const toggle = (id: string) => open.value = open.value === id ? undefined : id;
  const letIn = () =>
    shown.value = reveal(shown.peek(), asks.peek().map(({ ask_id }) => ask_id), performance.now());
  const give = (ask: AskView, given: Answer) => {
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
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const ask = asks.peek().find(({ ask_id }) => ask_id === shown.peek().chosen);
      if (isTyping(event) || document.querySelector("dialog[open]")) return;
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
      <div class="head">
        <h1>{text.page.inbox}</h1>
        <NotifyButton />
      </div>
      <p class="hint">{words.keys}</p>
      <div role="status" class="hidden">{words.waiting(pending.size)}</div>
      <div class="newcomers">
        {behind > 0 && <button type="button" onClick={letIn}>{words.newcomers(behind)}</button>}
      </div>
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
    </>
  );
}

/** Tests whether a key belongs to a control rather than to the page. */
function isTyping({ target, ctrlKey, metaKey, altKey, key }: KeyboardEvent): boolean {
  const name = (target as HTMLElement).tagName;
  return ctrlKey || metaKey || altKey || ["INPUT", "TEXTAREA", "SELECT"].includes(name) ||
    (key === "Enter" && ["BUTTON", "A"].includes(name));
}

/** Asks the browser for permission to notify. Notifications name only the VM: a request may hold a secret. */
function NotifyButton() {
  const state = useSignal(globalThis.Notification?.permission ?? "denied");
  useEffect(() =>
    onMessage(({ type, payload }) => {
      if (
        type !== "ask" || payload.status !== "pending" || !document.hidden || state.value !== "granted"
      ) return;
      new Notification(text.inbox.notification(vmNames.value.get(payload.session_id) ?? text.app.name), {
        tag: payload.ask_id,
      });
    }), []);
  if (state.value !== "default") return null;
  const request = async () => state.value = await Notification.requestPermission();
  return <button type="button" onClick={request}>{text.inbox.notify}</button>;
}
