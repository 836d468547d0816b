import { zstdCompressSync } from "node:zlib";
import { joinBytes } from "../../base/bytes/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { LedgerRows } from "../../ledger/read/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import { SEGMENT_TYPE, signText } from "../../signing/mod.ts";
import { formatLine } from "./line.ts";
import type { SegmentHeader } from "./schema.ts";
import { type BodyGrant, originOf, withholdFromEvent, withholdFromOutcome } from "./withhold.ts";

/** What a segment is made with. */
export interface SegmentTerms {
  key: SigningKey;
  session_id: string;
  /** bodies that may leave the machine */
  grants?: readonly BodyGrant[];
  /** events of earlier segments whose ends may still come, by id; filled by each call */
  origins?: Map<string, { family: string; host?: string }>;
}

/** Events remembered for the bodies of their ends. */
const ORIGINS_MAX = 10_000;

/** Makes a segment of rows: the envelope of its header on the first line, its rows behind it, compressed. */
export async function makeSegment(
  rows: LedgerRows,
  { key, session_id, grants = [], origins = new Map() }: SegmentTerms,
): Promise<Uint8Array<ArrayBuffer>> {
  const body = new TextEncoder().encode(linesOf(rows, grants, origins));
  const packed = new Uint8Array(zstdCompressSync(body));
  const header: SegmentHeader = {
    schema: "sbx.ledger-segment.v1",
    machine_id: key.publicKey.id,
    session_id,
    made_at: new Date().toISOString(),
    bound_after: rows.bound_after,
    from: rows.from,
    to: rows.to,
    body: { hash: blake3(packed), bytes: body.length },
  };
  const envelope = await signText(key, SEGMENT_TYPE, JSON.stringify(header));
  return joinBytes([new TextEncoder().encode(envelope), packed]);
}

function linesOf(
  { events, outcomes, journal }: LedgerRows,
  grants: readonly BodyGrant[],
  origins: Map<string, { family: string; host?: string }>,
): string {
  const lines: string[] = [];
  for (const { text, hash, record } of events) {
    const sent = withholdFromEvent(text, grants);
    if (grants.length > 0) remember(origins, text);
    lines.push(formatLine({ kind: "event", hash, text: sent, record, whole: sent === text }));
  }
  for (const { text, hash } of outcomes) {
    const id = grants.length > 0 ? /"event_id":"([^"\\]*)"/.exec(text)?.[1] : undefined;
    const sent = withholdFromOutcome(text, id === undefined ? undefined : origins.get(id), grants);
    lines.push(formatLine({ kind: "outcome", hash, text: sent, whole: sent === text }));
  }
  for (const { kind, id, hash, text } of journal) {
    lines.push(formatLine({ kind: "journal", hash, of: kind, id, text }));
  }
  return lines.map((line) => line + "\n").join("");
}

function remember(origins: Map<string, { family: string; host?: string }>, text: string): void {
  const { event_id, ...origin } = originOf(text);
  origins.set(event_id, origin);
  if (origins.size > ORIGINS_MAX) origins.delete(origins.keys().next().value!);
}
