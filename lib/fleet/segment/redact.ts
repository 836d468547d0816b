/**
 * Erases rows of a stored segment: hashes stay, so that the chain still leads to the
 * heads that the machine signed.
 */
import { zstdCompressSync } from "node:zlib";
import { joinBytes } from "../../base/bytes/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { digestText } from "../../ledger/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import { FLEET_LOG_TYPE, signText } from "../../release/signing/mod.ts";
import { type OpenedSegment, verifyRows } from "./read.ts";
import { formatLine, type Line, type Redaction } from "./schema.ts";

/** True for a row to erase; called once for each row with content, in order. */
export type RowTest = (line: Exclude<Line, { kind: "erased" }>) => boolean;

/** Rows of each chain. */
export type Counts = Redaction["erased"];

/**
 * Erases rows.
 *
 * @param bytes of the segment, which `opened` was opened from
 * @param key of the store
 * @param erasure id of its statement
 * @returns the segment without them, and the number of rows that were erased now;
 * `undefined`: it had no such row
 * @throws {SbxError} `fleet.segment.invalid`: the rows do not verify, so that no one may sign for their rest
 */
export async function redactSegment(
  bytes: Uint8Array<ArrayBuffer>,
  opened: OpenedSegment,
  isErased: RowTest,
  key: SigningKey,
  erasure: string,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; erased: Counts } | undefined> {
  const { header, redaction } = opened;
  const erased: Counts = { events: 0, outcomes: 0, journal: 0 };
  let sequence = header.from.events;
  const lines = verifyRows(opened).map((line): Line => {
    const isEvent = line.kind === "event" || line.kind === "erased" && line.of === "event";
    if (isEvent) sequence++;
    if (line.kind === "erased" || line.kind === "journal" && line.text === null || !isErased(line)) {
      return line;
    }
    const { hash } = line;
    if (line.kind === "journal") {
      erased.journal++;
      return { ...line, text: null };
    }
    erased[`${line.kind}s`]++;
    if (line.kind === "outcome") return { kind: "erased", of: "outcome", hash, link: hash };
    const isBound = header.bound_after !== null && sequence > header.bound_after && line.record !== null;
    return { kind: "erased", of: "event", hash, link: isBound ? digestText(line.record + hash) : hash };
  });
  if (erased.events + erased.outcomes + erased.journal === 0) return undefined;
  const body = new TextEncoder().encode(lines.map((line) => `${formatLine(line)}\n`).join(""));
  const packed = new Uint8Array(zstdCompressSync(body));
  const before = redaction?.erased ?? { events: 0, outcomes: 0, journal: 0 };
  const content: Redaction = {
    schema: "sbx.fleet-redaction.v1",
    machine_id: header.machine_id,
    session_id: header.session_id,
    original: header.body.hash,
    body: { hash: blake3(packed), bytes: body.length },
    erased: {
      events: before.events + erased.events,
      outcomes: before.outcomes + erased.outcomes,
      journal: before.journal + erased.journal,
    },
    erasures: [...(redaction?.erasures ?? []), erasure].slice(-1000),
  };
  const envelope = await signText(key, FLEET_LOG_TYPE, canonicalJson(content));
  const start = bytes.indexOf(10) + 1;
  return { bytes: joinBytes([bytes.subarray(0, start), new TextEncoder().encode(envelope), packed]), erased };
}
