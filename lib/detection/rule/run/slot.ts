/** Values of an event, read once for all rules. */
import type { Matchable } from "../../match/index_node.ts";
import { fold, textOf } from "./fold.ts";
import { type Parent, readerOf } from "./source.ts";

/** Texts that tests see. */
export interface Texts {
  readonly texts: readonly string[];
  readonly folded: readonly string[];
}

const NONE: readonly string[] = [];
/**
 * Most texts of a list or of an event that keywords look through (docs/design/contracts/14-limits.md §14).
 */
const TEXTS_MAX = 4096;
const DEPTH_MAX = 8;

/** The event that is being matched. */
export class View {
  event!: Matchable;
  parent: Parent | undefined;
  /** counts events, so that values of the one before are not used */
  stamp = 0;
  readonly words = new Words(this);

  next(event: Matchable, parent: Parent | undefined): void {
    this.event = event;
    this.parent = parent;
    this.stamp++;
  }
}

/** The values of one field: of the first of its sources that is there. */
export class Slot implements Texts {
  readonly #readers: ReturnType<typeof readerOf>[];
  #stamp = 0;
  #foldedStamp = 0;
  #value: unknown;
  #texts: readonly string[] = NONE;
  #folded: readonly string[] = NONE;

  constructor(readonly view: View, on: readonly string[]) {
    this.#readers = on.map(readerOf);
  }

  #load(): void {
    const { view } = this;
    if (this.#stamp === view.stamp) return;
    this.#stamp = view.stamp;
    let value: unknown;
    for (let at = 0; at < this.#readers.length && value === undefined; at++) {
      value = this.#readers[at](view.event, view.parent);
    }
    this.#value = value;
    if (typeof value === "string") this.#texts = [value];
    else if (Array.isArray(value)) this.#texts = listTexts(value);
    else if (typeof value === "object" && value !== null) this.#texts = mapTexts(value);
    else {
      const text = textOf(value);
      this.#texts = text === undefined ? NONE : [text];
    }
  }

  /** The event has the field, whatever its value. */
  get isPresent(): boolean {
    this.#load();
    return this.#value !== undefined;
  }

  get isNull(): boolean {
    this.#load();
    return this.#value === undefined || this.#value === null;
  }

  get texts(): readonly string[] {
    this.#load();
    return this.#texts;
  }

  get folded(): readonly string[] {
    this.#load();
    if (this.#foldedStamp !== this.#stamp) {
      this.#foldedStamp = this.#stamp;
      this.#folded = foldAll(this.#texts);
    }
    return this.#folded;
  }
}

/** Folds texts. @returns the same list where nothing is to be folded */
function foldAll(texts: readonly string[]): readonly string[] {
  if (texts.length !== 1) return texts.length === 0 ? texts : texts.map(fold);
  const folded = fold(texts[0]);
  return folded === texts[0] ? texts : [folded];
}

function listTexts(list: readonly unknown[]): string[] {
  const texts: string[] = [];
  for (const item of list) {
    const text = textOf(item);
    if (text !== undefined) texts.push(text);
    if (texts.length === TEXTS_MAX) break;
  }
  return texts;
}

/** Texts of a map, such as the headers of a request: `name: value`, one for each value of a list. */
function mapTexts(map: object): string[] {
  const texts: string[] = [];
  for (const [name, value] of Object.entries(map)) {
    for (const text of listTexts([value].flat())) {
      if (texts.push(`${name}: ${text}`) === TEXTS_MAX) return texts;
    }
  }
  return texts;
}

/** Every text of an event: of its family, and of its program. */
export class Words implements Texts {
  #stamp = 0;
  #foldedStamp = 0;
  #texts: string[] = [];
  #folded: readonly string[] = NONE;

  constructor(readonly view: View) {}

  #load(): void {
    const { view } = this;
    if (this.#stamp === view.stamp) return;
    this.#stamp = view.stamp;
    const { event_type, process } = view.event.common as { event_type: string; process?: unknown };
    const family = event_type.slice(0, event_type.indexOf("."));
    this.#texts = [];
    this.#collect((view.event as unknown as Record<string, unknown>)[family], 0);
    this.#collect(process, 0);
  }

  #collect(value: unknown, depth: number): void {
    if (this.#texts.length >= TEXTS_MAX || depth > DEPTH_MAX) return;
    const text = textOf(value);
    if (text !== undefined) this.#texts.push(text);
    else if (Array.isArray(value)) { for (const item of value) this.#collect(item, depth + 1); }
    else if (value !== null && typeof value === "object") {
      for (const item of Object.values(value)) this.#collect(item, depth + 1);
    }
  }

  get texts(): readonly string[] {
    this.#load();
    return this.#texts;
  }

  get folded(): readonly string[] {
    this.#load();
    if (this.#foldedStamp !== this.#stamp) {
      this.#foldedStamp = this.#stamp;
      this.#folded = foldAll(this.#texts);
    }
    return this.#folded;
  }
}
