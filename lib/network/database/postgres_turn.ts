/** Turns of a PostgreSQL connection: the messages up to a ReadyForQuery of the server, and their events. */
import type { Passage } from "../../policy/mod.ts";
import type { Prepared } from "./postgres_prepared.ts";

/** One turn. */
export class DatabaseTurn {
  /** Parses without an answer */
  readonly parses: { name: string; prepared: Prepared }[] = [];
  /** statements that are to be closed; `undefined` for a portal */
  readonly closes: (string | undefined)[] = [];
  /** answer to a statement of this turn that was refused */
  refusal?: Uint8Array;
  /** the server has answered with an error */
  hasFailed = false;
  /** statements of this turn without their end; a Parse alone does not count */
  readonly #steps: (Passage | undefined)[] = [];
  readonly #passages = new Map<Passage, { bytes: number; error?: string }>();
  /** event of each statement that this turn has parsed or run */
  readonly #decided = new Map<Prepared, Passage>();
  readonly #parsed = new Map<string, Prepared>();
  #hasSteps = false;

  constructor(readonly kind: "login" | "simple" | "extended") {}

  /** The server was sent something that it runs. */
  get hasSteps(): boolean {
    return this.#hasSteps;
  }

  /** Notes a Parse, whose event is the one of the first Execute too. */
  parse(name: string, prepared: Prepared): void {
    this.parses.push({ name, prepared });
    this.#parsed.set(name, prepared);
    this.add(prepared, prepared.passage!);
    delete prepared.passage;
  }

  /** The last statement of this name that this turn has parsed. */
  prepared(name: string): Prepared | undefined {
    return this.#parsed.get(name);
  }

  /** The event of a statement, where this turn has decided on it: one that runs again is the same. */
  passageOf(prepared: Prepared): Passage | undefined {
    return this.#decided.get(prepared);
  }

  add(prepared: Prepared, passage: Passage): void {
    this.#decided.set(prepared, passage);
    this.#passages.set(passage, { bytes: 0 });
  }

  /** Notes a statement that runs. @param passage absent: more rows of an earlier one */
  step(passage: Passage | undefined): void {
    this.#hasSteps = true;
    this.#steps.push(passage);
    if (passage && !this.#passages.has(passage)) this.#passages.set(passage, { bytes: 0 });
  }

  received(bytes: number): void {
    const tally = this.#tally();
    if (tally) tally.bytes += bytes;
  }

  /** The server has ended a statement; a Query may have several, which are one event. */
  done(): void {
    if (this.kind === "extended") this.#steps.shift();
  }

  /** @param state SQLSTATE */
  fail(state: string): void {
    this.hasFailed = true;
    const tally = this.#tally();
    if (tally) tally.error ??= /^[0-9A-Z]{5}$/.test(state) ? state : "XX000";
  }

  /** Records the end of every event. */
  end(): void {
    for (const [passage, response] of this.#passages) passage.finish({ response });
    this.#passages.clear();
  }

  /** Records that the connection ended in the middle. */
  abandon(error: string): void {
    for (const [passage, response] of this.#passages) passage.finish({ response, error });
    this.#passages.clear();
  }

  /** Of the statement that the server answers now. */
  #tally(): { bytes: number; error?: string } | undefined {
    const current = this.#steps[0] ?? this.#passages.keys().next().value;
    return current && this.#passages.get(current);
  }
}
