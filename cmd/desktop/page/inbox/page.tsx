import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asks } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { answer, ANSWERS } from "./answer.ts";
import { AskCard } from "./card.tsx";
import { NotifyButton } from "./notify.tsx";

/** Asks of all VMs, the newest on top, for a person at the keyboard. */
export function InboxPage() {
  const chosen = useSignal<string | undefined>(undefined);
  const open = useSignal<string | undefined>(undefined);
  const list = asks.value;
  const at = Math.max(0, list.findIndex(({ ask_id }) => ask_id === chosen.value));
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const ask = list[at];
      if (!ask || isTyping(event) || document.querySelector("dialog[open]")) return;
      if (event.key === "j") chosen.value = list[Math.min(at + 1, list.length - 1)].ask_id;
      else if (event.key === "k") chosen.value = list[Math.max(at - 1, 0)].ask_id;
      else if (event.key === "a") answer(ask, ANSWERS.once);
      else if (event.key === "d") answer(ask, ANSWERS.deny);
      else if (event.key === "Enter") open.value = open.value === ask.ask_id ? undefined : ask.ask_id;
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [list, at]);
  const words = text.inbox;
  return (
    <>
      <div class="head">
        <h1>{text.page.inbox}</h1>
        <NotifyButton />
      </div>
      <p class="hint">{words.keys}</p>
      <div role="status" class="hidden">{words.waiting(list.length)}</div>
      {list.length === 0 ? <p class="empty">{words.empty}</p> : (
        <ul class="asks" aria-label={words.list}>
          {list.map((ask, index) => (
            <AskCard
              key={ask.ask_id}
              ask={ask}
              isChosen={index === at}
              isOpen={open.value === ask.ask_id}
              onToggle={() => open.value = open.value === ask.ask_id ? undefined : ask.ask_id}
            />
          ))}
        </ul>
      )}
    </>
  );
}

/** Tests whether a key belongs to a control rather than to the page. */
function isTyping({ target, ctrlKey, metaKey, altKey, key }: KeyboardEvent): boolean {
  const name = (target as HTMLElement).tagName;
  return ctrlKey || metaKey || altKey || ["INPUT", "TEXTAREA", "SELECT"].includes(name) ||
    (key === "Enter" && ["BUTTON", "A"].includes(name));
}
