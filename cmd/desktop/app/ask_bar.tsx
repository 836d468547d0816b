/** The bar of an ask on every page but the inbox: it is answered there, or read in the inbox. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import type { AskAnswer, AskView } from "../api/routes.ts";
import { READ_MS } from "../../../lib/policy/ask/mod.ts";
import { lastingAnswers } from "../page/inbox/always.tsx";
import { answer, ANSWERS } from "../page/inbox/answer.ts";
import { Icon } from "../part/icon.tsx";
import { Menu } from "../part/menu.tsx";
import { asks, notice, vmNames } from "../store/store.ts";
import { text } from "../text/en.ts";
import { nameOf, placeOf } from "./notify.tsx";
import { route } from "./route.ts";

/**
 * One ask at a time, the same until it is over; on a VM's page one of that VM first.
 * The others are behind a number.
 */
export function AskBar() {
  const shown = useSignal<string | undefined>(undefined);
  const [page, subject] = route.value;
  const vm = page === "vm" ? subject : undefined;
  const ofVm = asks.value.filter(({ session_id }) =>
    vm !== undefined && (session_id === vm || vmNames.value.get(session_id) === vm)
  );
  // The oldest first: its time is up first.
  const candidates = ofVm.length > 0 ? ofVm : asks.value;
  const ask = candidates.find(({ ask_id }) => ask_id === shown.value) ?? candidates.at(-1);
  useLayoutEffect(() => void (shown.value = ask?.ask_id), [ask?.ask_id]);
  return ask === undefined ? null : <Bar key={ask.ask_id} ask={ask} others={asks.value.length - 1} />;
}

function Bar({ ask, others }: { ask: AskView; others: number }) {
  const words = text.inbox;
  const since = useSignal(0);
  const isBusy = useSignal(false);
  // An ask that appears under the pointer, or comes back into view, takes no answer until it can be read.
  useLayoutEffect(() => {
    const restart = () => void (since.value = performance.now());
    restart();
    addEventListener("resize", restart);
    document.addEventListener("visibilitychange", restart);
    return () => {
      removeEventListener("resize", restart);
      document.removeEventListener("visibilitychange", restart);
    };
  }, []);
  const give = async (given: AskAnswer) => {
    if (performance.now() - since.peek() < READ_MS) {
      notice.value = { text: words.unread, isError: true };
      return;
    }
    isBusy.value = true;
    await answer(ask, given);
    isBusy.value = false;
  };
  return (
    <section
      class="ask-bar"
      aria-label={words.bar(nameOf(ask))}
      // A key that is held down answers once.
      onKeyDown={(event) => event.repeat && event.preventDefault()}
    >
      <Ring ask={ask} />
      <p>
        <span class="hint" role="status">{words.bar(nameOf(ask))}</span>
        <strong title={ask.subject}>{ask.subject}</strong>
      </p>
      <div class="buttons">
        <button type="button" disabled={isBusy.value} onClick={() => give(ANSWERS.deny)}>{words.deny}</button>
        <button type="button" class="main" disabled={isBusy.value} onClick={() => give(ANSWERS.once)}>
          {words.once}
        </button>
        <Menu label={words.longer} items={lastingAnswers(ask, give)}>
          <Icon name="down" />
        </Menu>
        <a href={placeOf(ask)}>{words.request}</a>
        {others > 0 && <a class="pill ask" href="#/inbox">{words.others(others)}</a>}
      </div>
    </section>
  );
}

/** Of a circle of one unit around, the radius. */
const RADIUS = 1 / (2 * Math.PI);

/** The time left to answer, as a ring that empties and as its name. */
function Ring({ ask: { created_at, expires_at } }: { ask: AskView }) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => now.value = Date.now(), 1000);
    return () => clearInterval(timer);
  }, []);
  const [begin, end] = [created_at, expires_at].map((moment) => Date.parse(moment));
  const left = Math.max(0, end - now.value);
  const seconds = Math.round(left / 1000);
  const size = 2 * RADIUS * 1.2;
  return (
    <svg
      class="ring"
      role="img"
      aria-label={text.inbox.expires(seconds)}
      width="28"
      height="28"
      viewBox={`${-size / 2} ${-size / 2} ${size} ${size}`}
    >
      <circle class="rest" r={RADIUS} />
      <circle class="left" r={RADIUS} stroke-dasharray={`${left / Math.max(1, end - begin)} 1`} />
      <text font-size={RADIUS * 0.8}>{seconds > 99 ? `${Math.ceil(seconds / 60)}m` : seconds}</text>
    </svg>
  );
}
