/** Events of programs: a page of the newest ones at first, older pages on demand, and live ones. */
import { signal } from "@preact/signals";
import { type ProcessNode, ProcessTreeBuilder } from "../../../../../lib/event/mod.ts";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { onMessage } from "../../../store/live.ts";
import { act } from "../../../store/store.ts";

const PAGE_SIZE = "1000";
/** Events of the first request: a start and an end for each program that is drawn at first. */
const FIRST_SIZE = "120";

/** Reads a page of a session's events. */
export type Pages = typeof api.events;

/** The programs of a session: its newest events, and older ones once a person asks for them. */
export class Programs {
  readonly nodes = signal<ProcessNode[] | undefined>(undefined);
  /** the record has older events than these */
  readonly hasOlder = signal(false);
  readonly #session: string;
  readonly #stop: () => void;
  readonly #pages: Pages;
  #reading: Promise<boolean> | undefined;
  /** the oldest first */
  #events: RecordedEvent[] = [];
  #builder = new ProcessTreeBuilder();
  /** events that come while the newest ones are read */
  #early: RecordedEvent[] | undefined = [];
  #older: string | undefined;
  #frame = 0;
  #isOver = false;

  constructor(session: string, pages: Pages = api.events) {
    this.#session = session;
    this.#pages = pages;
    this.#stop = onMessage(({ type, payload }) => {
      if (type !== "security-event") return;
      const { event, decision } = payload;
      if (event.common.session_id !== session || !event.process) return;
      const decided = { ...event, decision: decision?.decision, rule_id: decision?.rule.id };
      if (this.#early) return void this.#early.push(decided);
      this.#add(decided);
    });
  }

  close(): void {
    this.#isOver = true;
    this.#stop();
    cancelAnimationFrame(this.#frame);
  }

  /**
   * Reads a page: the newest events at first, and then the ones before them. A page that
   * is under way is not read twice.
   */
  read(): Promise<boolean> {
    return this.#reading ??= this.#readPage().finally(() => this.#reading = undefined);
  }

  #readPage(): Promise<boolean> {
    return act(async () => {
      const { events, next_cursor } = await this.#pages(this.#session, {
        family: "process",
        order: "newest",
        cursor: this.#older,
        limit: this.#early ? FIRST_SIZE : PAGE_SIZE,
      });
      if (this.#isOver) return;
      this.#older = next_cursor;
      this.hasOlder.value = next_cursor !== undefined;
      this.#events = [...events.toReversed(), ...this.#events];
      // A parent comes before its children.
      this.#builder = new ProcessTreeBuilder();
      for (const event of this.#events) this.#builder.add(event);
      const early = this.#early ?? [];
      this.#early = undefined;
      early.forEach((event) => this.#add(event));
      this.#draw();
    });
  }

  #add(event: RecordedEvent): void {
    if (event.common.sequence <= (this.#events.at(-1)?.common.sequence ?? 0)) return;
    this.#events.push(event);
    this.#builder.add(event);
    this.#draw();
  }

  #draw(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.nodes.value = this.#builder.tree().processes;
    });
  }
}
