import { Buffer } from "node:buffer";
import { constants, zstdCompressSync } from "node:zlib";
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { LedgerRows } from "../../ledger/read/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import { SEGMENT_TYPE, signText } from "../../release/signing/mod.ts";
import { formatLine, type Line, parseLine } from "./line.ts";
import type { SegmentHeader } from "./schema.ts";
import {
  type BodyGrant,
  findContents,
  originOf,
  withholdFromEvent,
  withholdFromOutcome,
} from "./withhold.ts";

/** Terms on which segments are made. */
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
/**
 * This level takes half the time of the next one, and events are so repetitive that its output is smaller.
 */
const COMPRESSION = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/**
 * Makes a segment of rows: the envelope of its header on the first line, then its rows, compressed.
 *
 * @throws {SbxError} `ledger.invalid`: a row with contents is damaged
 */
export async function makeSegment(
  rows: LedgerRows,
  { key, session_id, grants = [], origins = new Map() }: SegmentTerms,
): Promise<Uint8Array<ArrayBuffer>> {
  const withhold = new Withholding(grants, origins);
  const body = joinBytes([
    ...withhold.parts(rows.events),
    ...withhold.parts(rows.outcomes),
    // Findings, answers and statements have no contents of requests.
    rows.journal,
  ]);
  const packed = new Uint8Array(zstdCompressSync(body, COMPRESSION));
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

/** Removes contents from lines. Lines without any are not parsed, unless a grant exists. */
class Withholding {
  constructor(
    readonly grants: readonly BodyGrant[],
    readonly origins: Map<string, { family: string; host?: string }>,
  ) {}

  /** @returns the lines, with replacements for the ones with contents */
  parts(lines: Uint8Array): Uint8Array[] {
    const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.length);
    // Latin-1: the place of a character is that of its byte.
    const text = bytes.toString("latin1");
    const isGranted = this.grants.length > 0;
    const parts: Uint8Array[] = [];
    let sent = 0;
    for (let at = 0; at < text.length;) {
      const found = isGranted ? at : findContents(text, at);
      if (found < 0) break;
      const start = text.lastIndexOf("\n", found - 1) + 1;
      const end = text.indexOf("\n", found);
      const line = bytes.toString("utf8", start, end);
      const changed = this.#without(line);
      if (changed !== line) {
        parts.push(lines.subarray(sent, start), new TextEncoder().encode(changed));
        sent = end;
      }
      at = end + 1;
    }
    parts.push(lines.subarray(sent));
    return parts;
  }

  #without(text: string): string {
    const line = parseLine(text);
    if (!line || line.kind === "journal") throw damaged("a row is none");
    let sent: string;
    try {
      sent = line.kind === "event" ? this.#event(line.text) : this.#outcome(line.text);
    } catch (cause) {
      throw damaged("a row is not JSON", cause);
    }
    return sent === line.text ? text : formatLine({ ...line, text: sent, whole: false } as Line);
  }

  #event(text: string): string {
    if (this.grants.length > 0) this.#remember(text);
    return withholdFromEvent(text, this.grants);
  }

  #outcome(text: string): string {
    const id = this.grants.length > 0 ? /"event_id":"([^"\\]*)"/.exec(text)?.[1] : undefined;
    return withholdFromOutcome(text, id === undefined ? undefined : this.origins.get(id), this.grants);
  }

  #remember(text: string): void {
    const { event_id, ...origin } = originOf(text);
    this.origins.set(event_id, origin);
    if (this.origins.size > ORIGINS_MAX) this.origins.delete(this.origins.keys().next().value!);
  }
}

function damaged(problem: string, cause?: unknown): SbxError {
  return new SbxError("ledger.invalid", `the ledger is damaged: ${problem}; nothing of it is sent`, {
    cause,
    hint: "sbx verify NAME names the first bad event",
  });
}
