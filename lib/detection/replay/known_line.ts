/**
 * Lines of an events file that differ from an earlier line in their values only. Most lines of a file do, and
 * comparing one with a pattern of the earlier line takes a seventh of the time of `JSON.parse`.
 */
import { jsonPattern, type KnownShape, KnownTexts } from "../../base/json/mod.ts";
import { normalizeContext, type PolicyContext } from "../../event/mod.ts";
import type { Matchable } from "../match/index_node.ts";
import type { FieldsRead } from "../match/matcher.ts";
import { contextOf, type FixtureLine } from "./fixture.ts";

/** Values on which the checks of a line depend. */
const FIXED = /^(?:schema|(?:context\.)?(?:schema_version|common\.event_type))$/;

/** Event of the line that was learned, with the values of the line compared last. */
interface KnownEvent {
  event: Record<string, unknown>;
  /** places of the values that the pattern reads */
  places: { owner: Record<string, unknown>; key: string; read: (text: string) => unknown }[];
}

const READERS: Record<string, (text: string) => unknown> = {
  string: (text) => text,
  number: Number,
  boolean: (text) => text === "true",
};

/** Shapes of the lines read so far. */
export class KnownLines {
  readonly #texts = new KnownTexts<KnownEvent>();

  /** @param reads fields whose values the caller needs */
  constructor(readonly reads: FieldsRead) {}

  /**
   * The event of a line without any problem and without labels, as `readFixture` would return it, but for the
   * values of fields that are not read. The next call changes it.
   *
   * @returns `undefined` if the line must be parsed
   */
  eventOf(text: string): Matchable | undefined {
    const known = this.reads === "history" ? undefined : this.#texts.match(text);
    if (!known) return undefined;
    const { of: { event, places }, values } = known;
    for (let at = 0; at < places.length; at++) {
      const { owner, key, read } = places[at];
      owner[key] = read(values[at + 1]);
    }
    return normalizeContext(event as PolicyContext);
  }

  /** Counts a line that was not parsed. */
  spare(): void {
    this.#texts.spare();
  }

  /** Learns the shape of a line that has no problem. Labels are compared with findings. */
  learn(text: string, { labels = [] }: FixtureLine): void {
    if (this.reads === "history" || labels.length > 0) return;
    this.#texts.learn(text, () => shapeOf(JSON.parse(text), this.reads));
  }
}

/** @param value a line without a problem */
function shapeOf(value: Record<string, unknown>, reads: FieldsRead): KnownShape<KnownEvent> | undefined {
  const event = contextOf(value);
  const prefix = value.common === undefined ? "context." : "";
  const places: KnownEvent["places"] = [];
  const pattern = jsonPattern(value, (path, holder, key) => {
    if (FIXED.test(path)) return "fixed";
    // The copy of a listed event lacks some of its keys.
    const owner = (holder === value ? event : holder) as Record<string, unknown>;
    const read = READERS[typeof owner[key]];
    const isPart = path.startsWith(prefix) && Object.hasOwn(owner, key) && read !== undefined;
    if (!isPart || !isRead(path.slice(prefix.length), reads)) return "any";
    places.push({ owner, key, read });
    return "read";
  });
  return pattern && { pattern, of: { event, places } };
}

/** Depth to which readers of fields follow a path (`lib/event/catalogue.ts`). */
const PATH_PARTS = 4;

/** Tests whether a value is of a field that is read, or a part of one. */
function isRead(path: string, reads: FieldsRead): boolean {
  if (typeof reads === "string") return true;
  return reads.some((read) => {
    const field = read.split(".", PATH_PARTS).join(".");
    return path === field || path.startsWith(`${field}.`) || field.startsWith(`${path}.`);
  });
}
