/**
 * Format of a segment: its header, which a machine signs for part of a ledger, and its rows
 * (docs/design/contracts/12-ledger.md §12).
 */
import { z } from "zod";
import { Heads } from "../../ledger/witness/schema.ts";

/** Format of machine ids (SHA-256 of their key) and of hashes. */
export const HEX64 = /^[0-9a-f]{64}$/;
/** Format of session ids. */
export const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const hash = z.string().regex(HEX64, "must be 64 hex characters");
const length = z.int().min(0);

export { Heads };

export const SegmentHeader = z.strictObject({
  schema: z.literal("sbx.ledger-segment.v1"),
  machine_id: hash,
  session_id: z.string().regex(SESSION_ID, "must be a session's id"),
  /** ISO 8601, by the clock of the machine */
  made_at: z.iso.datetime(),
  /** sequence of the last event whose decision is not in the chain; null: no such event */
  bound_after: length.nullable(),
  from: Heads,
  to: Heads,
  /** BLAKE3 of the compressed rows, and their size in `bytes` before compression */
  body: z.strictObject({ hash, bytes: length }),
});
export type SegmentHeader = z.infer<typeof SegmentHeader>;

/** Erasure of rows of a stored segment, signed by the store's key. */
export const Redaction = z.strictObject({
  schema: z.literal("sbx.fleet-redaction.v1"),
  machine_id: hash,
  session_id: z.string().regex(SESSION_ID),
  /** hash of the rows as the machine signed them */
  original: hash,
  body: z.strictObject({ hash, bytes: length }),
  /** rows without content, also of earlier erasures */
  erased: z.strictObject({ events: length, outcomes: length, journal: length }),
  /** statements of the erasures, by id */
  erasures: z.array(z.uuid()).min(1).max(1000),
});
export type Redaction = z.infer<typeof Redaction>;

// Rows of a segment, one a line, with tabs between their parts; JSON has neither tabs nor line ends.
//
// `e hash event record` an event, `o hash outcome` an end of one, `j hash kind id text` a
// finding, an answer or a statement. `E` and `O` are rows whose bodies stayed on the machine:
// their hash is that of the whole text.

// In a store, `x hash link` is an erased event, whose chain goes on with `link`, and `y hash` an erased
// outcome. An erased row of the journal has no text.

/** A row, as it was sent; `erased`: the store erased its content. */
export type Line =
  | { kind: "erased"; of: "event" | "outcome"; hash: string; link: string }
  | { kind: "event"; hash: string; text: string; record: string | null; whole: boolean }
  | { kind: "outcome"; hash: string; text: string; whole: boolean }
  | { kind: "journal"; hash: string; of: string; id: string; text: string | null };

/** Spells a row. */
export function formatLine(line: Line): string {
  if (line.kind === "journal") return `j\t${line.hash}\t${line.of}\t${line.id}\t${line.text ?? ""}`;
  if (line.kind === "erased") {
    return line.of === "event" ? `x\t${line.hash}\t${line.link}` : `y\t${line.hash}\t`;
  }
  if (line.kind === "outcome") return `${line.whole ? "o" : "O"}\t${line.hash}\t${line.text}`;
  return `${line.whole ? "e" : "E"}\t${line.hash}\t${line.text}\t${line.record ?? ""}`;
}

const HASH = /^[0-9a-f]{64}$/;

/** Parses a row. @returns `undefined`: not a row */
export function parseLine(text: string): Line | undefined {
  const hash = text.slice(2, 66);
  if (text[1] !== "\t" || text[66] !== "\t" || !HASH.test(hash)) return undefined;
  const next = text.indexOf("\t", 67);
  switch (text[0]) {
    case "e":
    case "E":
      if (next < 0 || text.includes("\t", next + 1)) return undefined;
      return {
        kind: "event",
        hash,
        text: text.slice(67, next),
        record: text.slice(next + 1) || null,
        whole: text[0] === "e",
      };
    case "o":
    case "O":
      return next < 0 ? { kind: "outcome", hash, text: text.slice(67), whole: text[0] === "o" } : undefined;
    case "j": {
      const [of, id, rest, more] = text.slice(67).split("\t");
      if (rest === undefined || more !== undefined) return undefined;
      return { kind: "journal", hash, of, id, text: rest || null };
    }
    case "x": {
      const link = text.slice(67);
      return HASH.test(link) ? { kind: "erased", of: "event", hash, link } : undefined;
    }
    case "y":
      return text.length === 67 ? { kind: "erased", of: "outcome", hash, link: hash } : undefined;
    default:
      return undefined;
  }
}
