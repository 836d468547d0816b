/** Calls of models and of tools in their order: the newest at first, older ones on demand. */
import { effect, signal } from "@preact/signals";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { onMessage } from "../../../store/live.ts";
import { act, connection } from "../../../store/store.ts";

const FAMILIES = ["model", "mcp"] as const;
export type Kind = typeof FAMILIES[number];
/** Events of a family in one request. */
const PAGE_SIZE = "50";
/** `ms` until calls without an answer are read again. */
const LOOK_MS = 2000;
/** `ms` for which an answer is waited for. */
const ANSWER_MS = 10 * 60_000;

/** The calls of a session, of one kind or of both. */
export class Conversation {
  /** the oldest first; absent until they are read */
  readonly calls = signal<RecordedEvent[] | undefined>(undefined);
  readonly hasOlder = signal(false);
  readonly #session: string;
  readonly #grep: string;
  readonly #pages: typeof api.events;
  readonly #families: readonly Kind[];
  readonly #known = new Map<string, RecordedEvent>();
  /** where older events of a family follow */
  readonly #older = new Map<Kind, string>();
  readonly #stops: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;

  constructor(session: string, kind: Kind | undefined, grep: string, pages: typeof api.events = api.events) {
    this.#session = session;
    this.#grep = grep;
    this.#pages = pages;
    this.#families = kind ? [kind] : FAMILIES;
    this.#stops.push(onMessage(({ type, payload }) => {
      if (type !== "security-event") return;
      const { common, model, mcp } = payload.event;
      if (common.session_id === session && (model || mcp)) this.#lookSoon();
    }));
    // Reads at the start, and each time that the service is back.
    this.#stops.push(effect(() => void (connection.value === "online" && this.#read())));
  }

  close(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    for (const stop of this.#stops) stop();
  }

  /** Reads the calls before the ones that are shown. */
  older(): Promise<boolean> {
    return act(async () => {
      await Promise.all([...this.#older].map(([family, cursor]) => this.#page(family, cursor)));
      this.#show();
    });
  }

  #read(): Promise<boolean> {
    return act(async () => {
      await Promise.all(this.#families.map((family) => this.#page(family)));
      this.#show();
    });
  }

  async #page(family: Kind, cursor?: string): Promise<void> {
    const { events, next_cursor } = await this.#pages(this.#session, {
      ...{ family, grep: this.#grep, cursor, limit: PAGE_SIZE, order: "newest" },
    });
    // A later look at the newest ones says nothing about the oldest ones that are known.
    const isSame = cursor === undefined && !this.#isApart(family, events);
    for (const event of events) this.#known.set(event.common.event_id, event);
    if (isSame) return;
    if (next_cursor === undefined) this.#older.delete(family);
    else this.#older.set(family, next_cursor);
  }

  /** True where no known event joins a page of the newest ones; the known ones then go. */
  #isApart(family: Kind, page: readonly RecordedEvent[]): boolean {
    const known = this.#known.values().filter((event) => event[family]).toArray();
    const oldest = Math.min(...page.map(({ common }) => common.sequence));
    if (known.some(({ common }) => common.sequence >= oldest)) return false;
    for (const { common } of known) this.#known.delete(common.event_id);
    return true;
  }

  #show(): void {
    if (this.#isOver) return;
    // Older ones of one family may lie between known ones of the other: none is shown before both are read.
    const from = Math.max(0, ...this.#older.values().map(Number));
    const all = [...this.#known.values()].filter(({ common }) => common.sequence >= from);
    this.calls.value = all.toSorted((a, b) => a.common.sequence - b.common.sequence);
    this.hasOlder.value = this.#older.size > 0;
    const isDue = ({ common, model, mcp, decision }: RecordedEvent) =>
      (model ?? mcp)?.response === undefined && decision !== "block" &&
      Date.now() - common.timestamp_unix_ms < ANSWER_MS;
    if (this.calls.value.some(isDue)) this.#lookSoon();
  }

  #lookSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (!this.#isOver && connection.peek() === "online") this.#read();
    }, LOOK_MS);
  }
}
