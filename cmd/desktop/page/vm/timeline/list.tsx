import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { timeOf } from "../../../part/time.ts";
import { text } from "../../../text/en.ts";
import type { Row } from "./row.ts";

/** `px` of a row; the style sheet has the same. */
const ROW_HEIGHT = 28;
/** Rows drawn beyond each edge. */
const MARGIN = 12;

/** Events in a box that scrolls; only the rows in sight are drawn. It follows new ones while it is at its end. */
export function EventList({ rows, chosen }: { rows: Signal<Row[]>; chosen: Signal<string | undefined> }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const isAtEnd = useRef(true);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / ROW_HEIGHT) - MARGIN));
  const count = Math.ceil(height.value / ROW_HEIGHT) + 2 * MARGIN;
  const all = rows.value;
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => height.value = contentRect.height);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current!.scrollTop = all.length * ROW_HEIGHT;
  }, [all]);
  const onScroll = (
    { currentTarget: { scrollTop, scrollHeight, clientHeight } }: { currentTarget: HTMLElement },
  ) => {
    top.value = scrollTop;
    isAtEnd.current = scrollTop + clientHeight >= scrollHeight - ROW_HEIGHT;
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step === undefined || all.length === 0) return;
    event.preventDefault();
    const at = all.findIndex(({ id }) => id === chosen.value);
    const next = at < 0 ? all.length - 1 : Math.min(all.length - 1, Math.max(0, at + step));
    chosen.value = all[next].id;
    keepInSight(box.current!, next);
  };
  return (
    <div
      ref={box}
      class="events"
      role="listbox"
      aria-label={text.timeline.list}
      aria-activedescendant={chosen.value && `event-${chosen.value}`}
      tabIndex={0}
      onScroll={onScroll}
      onKeyDown={onKey}
    >
      <div class="space" role="presentation" style={{ height: `${all.length * ROW_HEIGHT}px` }}>
        {all.slice(first.value, first.value + count).map((row, index) => (
          <EventRow
            // An element that leaves one end of the box is used again at the other.
            key={(first.value + index) % count}
            row={row}
            place={first.value + index}
            count={all.length}
            isChosen={row.id === chosen.value}
            onChoose={() => chosen.value = row.id}
          />
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  row: Row;
  place: number;
  count: number;
  isChosen: boolean;
  onChoose: () => void;
}

function EventRow({ row, place, count, isChosen, onChoose }: RowProps) {
  return (
    <div
      id={`event-${row.id}`}
      class={`event ${row.decision}`}
      role="option"
      aria-selected={isChosen}
      aria-setsize={count}
      aria-posinset={place + 1}
      style={{ top: `${place * ROW_HEIGHT}px` }}
      onClick={onChoose}
    >
      <span>{timeOf(row.time)}</span>
      <span>{row.type}</span>
      <span>{row.decision}</span>
      <span>{row.subject}</span>
    </div>
  );
}

function keepInSight(box: HTMLElement, place: number): void {
  const top = place * ROW_HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW_HEIGHT > box.scrollTop + box.clientHeight) {
    box.scrollTop = top + ROW_HEIGHT - box.clientHeight;
  }
}
