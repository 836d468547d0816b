/**
 * Makes records for a sink quickly: most events have the shape of an earlier one, so their record is copied
 * from that one's text with the values of this event filled in. Events of a new shape are parsed and mapped.
 */
import { familyOf } from "../../event/mod.ts";
import { type EventText, type LedgerEvent, ledgerEventOf, toLedgerEvent } from "../read/mod.ts";
import type { FeedContext } from "./json.ts";
import { encodeRecord, type FeedRecord, feedRecordOf, passes, RECORD_MAX, wholeRecordOf } from "./record.ts";
import type { FeedSink } from "./schema.ts";
import {
  COPY_MAX,
  type Cuts,
  cutText,
  matchShape,
  type Places,
  type ShapeTables,
  shapeTables,
} from "./shape.ts";

// Limits of memory (docs/design/contracts/14-limits.md §14).

/** Most shapes kept for one pass: the events of a session, or the updates of its events. */
const SHAPES_MAX = 64;
/** Most passes whose shapes are kept. */
const PASSES_MAX = 64;
/** Most shapes remembered that were seen once. */
const SEEN_MAX = 256;
/** Most characters of a shape. */
const SHAPE_MAX = 4096;
/**
 * Events of new shapes in a pass, beyond the number of copied ones, after which no more shapes are learned.
 */
const CUTS_MAX = 64;

/** Memory allocated for records at once, in `bytes`. */
const CHUNK_BYTES = 1024 * 1024;

const NEWLINE = 10;

/** Longest piece that a loop copies faster than a call of `set`. */
const SHORT_PIECE = 32;

/** Text of a record, cut into pieces at the values that differ between events. */
interface Template {
  event: Cuts;
  outcome?: Cuts;
  decision: string | null;
  rule_id: string | null;
  is_update: boolean;
  /** absent: the sink does not get such events */
  record?: Omit<FeedRecord, "event_id" | "sequence" | "time" | "is_update" | "json">;
  pieces: Uint8Array[];
  /** copied value after each piece but the last */
  values: number[];
  /** copied values that are the id, the sequence and the time of a record */
  members: number[];
}

/** Makes the records of a sink's events. */
export class RecordCopier {
  readonly #sink: FeedSink;
  readonly #tables: ShapeTables | undefined;
  readonly #passes = new Map<string, Template[]>();
  readonly #seen = new Set<string>();
  /** memory of the records made since the last release */
  readonly #chunks: Uint8Array<ArrayBuffer>[] = [];
  /** chunk that is being filled, and the end of its last record */
  #chunk = 0;
  #end = 0;

  constructor(sink: FeedSink) {
    this.#sink = sink;
    // OpenTelemetry has attributes in place of the event's JSON, so no text can be copied.
    if (sink.form !== "otlp") {
      this.#tables = shapeTables(
        new Set(Object.keys(sink.redact).filter((field) => sink.redact[field] === "hash")),
      );
    }
  }

  /** Uses the memory of all records again: none of them may be used any more. */
  release(): void {
    this.#chunk = this.#end = 0;
  }

  /** Begins a pass over events of a session. @param isUpdate they were sent before their ends were known */
  pass(context: FeedContext, isUpdate = false): (event: EventText) => FeedRecord | undefined {
    const tables = this.#tables;
    if (!tables) return (text) => this.#map(ledgerEventOf(text), context, isUpdate);
    const templates = this.#templatesOf(context, isUpdate);
    const places: Places = [];
    let credit = CUTS_MAX;
    return (text) => {
      for (let at = 0; at < templates.length; at++) {
        const template = templates[at];
        places.length = 0;
        if (!matches(text, template, places)) continue;
        // Frequent shapes move to the front.
        if (at > 0) [templates[at - 1], templates[at]] = [template, templates[at - 1]];
        if (!template.record) return undefined;
        const record = this.#copy(text.text, template, template.record, places);
        if (record === undefined) break;
        credit = Math.min(CUTS_MAX, credit + 1);
        return record;
      }
      const event = ledgerEventOf(text);
      if (credit > 0) {
        credit--;
        const template = this.#learn(text, event, tables, context, isUpdate);
        if (template) {
          if (templates.length === SHAPES_MAX) templates.pop();
          templates.push(template);
        }
      }
      return this.#map(event, context, isUpdate);
    };
  }

  #map(event: LedgerEvent, context: FeedContext, isUpdate: boolean): FeedRecord | undefined {
    if (!passes(event, this.#sink)) return undefined;
    return encodeRecord(feedRecordOf(event, this.#sink, context, isUpdate));
  }

  #templatesOf(context: FeedContext, isUpdate: boolean): Template[] {
    const key = JSON.stringify([context, isUpdate]);
    let templates = this.#passes.get(key);
    if (templates) this.#passes.delete(key);
    else templates = [];
    this.#passes.set(key, templates);
    if (this.#passes.size > PASSES_MAX) this.#passes.delete(this.#passes.keys().next().value!);
    return templates;
  }

  /** Copies a record; `undefined`: it would be too long. */
  #copy(
    text: string,
    { pieces, values, is_update, members: [eventId, sequence, time] }: Template,
    { event_type, session_id, decision, host }: NonNullable<Template["record"]>,
    places: Places,
  ): FeedRecord | undefined {
    if (CHUNK_BYTES - this.#end <= RECORD_MAX + COPY_MAX) {
      this.#chunk++;
      this.#end = 0;
    }
    const chunk = this.#chunks[this.#chunk] ??= new Uint8Array(CHUNK_BYTES);
    const start = this.#end;
    chunk.set(pieces[0], start);
    let end = start + pieces[0].length;
    for (let at = 0; at < values.length; at++) {
      const value = 2 * values[at];
      for (let unit = places[value]; unit < places[value + 1]; unit++) chunk[end++] = text.charCodeAt(unit);
      const piece = pieces[at + 1];
      if (end + piece.length - start > RECORD_MAX) return undefined;
      if (piece.length <= SHORT_PIECE) {
        for (let unit = 0; unit < piece.length; unit++) chunk[end++] = piece[unit];
      } else {
        chunk.set(piece, end);
        end += piece.length;
      }
    }
    // A file of lines is written from this memory.
    chunk[end] = NEWLINE;
    this.#end = end + 1;
    const valueAt = (value: number) => text.slice(places[2 * value], places[2 * value + 1]);
    return {
      event_id: valueAt(eventId),
      event_type,
      session_id,
      sequence: Number(valueAt(sequence)),
      time: Number(valueAt(time)),
      ...(decision !== undefined && { decision }),
      host,
      json: chunk.subarray(start, end),
      is_update,
    };
  }

  /** Makes a template of an event whose shape was seen before; for a single event it would not pay off. */
  #learn(
    text: EventText,
    event: LedgerEvent,
    tables: ShapeTables,
    context: FeedContext,
    is_update: boolean,
  ): Template | undefined {
    // Substrings would keep the whole page in memory.
    const own = ownText(text.text.slice(text.start, text.end));
    const end = text.outcome && ownText(text.text.slice(text.outcome.start, text.outcome.end));
    const cuts = cutText(own, tables.event);
    const endTable = tables.outcomes.get(familyOf(event.common.event_type));
    const endCuts = end === undefined || !endTable ? undefined : cutText(end, endTable);
    if (!cuts || end !== undefined && !endCuts) return undefined;
    const { decision, rule_id } = text;
    const shape = [...cuts.runs, "", ...endCuts?.runs ?? [], decision, rule_id, is_update].join("\n");
    if (shape.length > SHAPE_MAX) return undefined;
    if (!this.#seen.has(shape)) {
      if (this.#seen.size === SEEN_MAX) this.#seen.clear();
      this.#seen.add(shape);
      return undefined;
    }
    const template = { event: cuts, ...(endCuts && { outcome: endCuts }), decision, rule_id, is_update };
    if (!passes(event, this.#sink)) return { ...template, pieces: [], values: [], members: [] };
    const gaps = [cuts, endCuts].map((part) => part?.gaps.filter(({ use }) => use !== "skip") ?? []);
    // A record of marks shows where each value is copied to.
    const marks = gaps.map((part) => part.map(({ use }) => use === "text" ? textMark() : numberMark()));
    const record = wholeRecordOf(
      toLedgerEvent({
        event: fill(own, cuts, marks[0]),
        outcome: end !== undefined && endCuts ? fill(end, endCuts, marks[1]) : null,
        decision,
        rule_id,
      }),
      this.#sink,
      context,
      is_update,
    );
    const members = ["event_id", "sequence", "timestamp_unix_ms"]
      .map((member) => gaps[0].findIndex(({ name }) => name === member));
    if (!record || members.includes(-1)) return undefined;
    const all = marks.flat();
    const pieces = record.json.split(new RegExp(all.join("|"))).map((piece) =>
      new TextEncoder().encode(piece)
    );
    const values = [...record.json.matchAll(new RegExp(all.join("|"), "g"))].map(([mark]) =>
      all.indexOf(mark)
    );
    const made: Template = { ...template, pieces, values, members, record };
    // It must make the record of this event too.
    const places: Places = [];
    const copied = matches(text, made, places) && this.#copy(text.text, made, record, places);
    const isRight = copied &&
      new TextDecoder().decode(copied.json) === feedRecordOf(event, this.#sink, context, is_update).json;
    return isRight ? made : undefined;
  }
}

function matches(
  { text, start, end, outcome, decision, rule_id }: EventText,
  like: Template,
  places: Places,
): boolean {
  if (decision !== like.decision || rule_id !== like.rule_id || !outcome !== !like.outcome) return false;
  if (matchShape(text, start, like.event, places) !== end) return false;
  return !outcome || matchShape(text, outcome.start, like.outcome!, places) === outcome.end;
}

/** Replaces the copied values of a text. */
function fill(text: string, { runs, gaps }: Cuts, values: readonly string[]): string {
  let copied = 0;
  let filled = runs[0];
  for (const [at, { use, start, end }] of gaps.entries()) {
    filled += (use === "skip" ? text.slice(start, end) : values[copied++]) + runs[at + 1];
  }
  return filled;
}

// No guest can guess a mark.

function textMark(): string {
  return crypto.randomUUID();
}

function numberMark(): string {
  const [random] = crypto.getRandomValues(new BigUint64Array(1));
  return `${10n ** 14n + random % (9n * 10n ** 14n)}`;
}

/** Copies a substring, so that the text it is from can be freed. */
function ownText(text: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(text));
}
