/** Reading segments, which come from machines that may lie: nothing of one counts before all of it was verified. */
import { Buffer } from "node:buffer";
import { zstdDecompressSync } from "node:zlib";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type ChainHeads, digestText, journalLink } from "../../ledger/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { openSigned, SEGMENT_TYPE } from "../../signing/mod.ts";
import { BODY_BYTES_MAX, HEADER_BYTES_MAX } from "./limit.ts";
import { type Line, parseLine } from "./line.ts";
import { SegmentHeader } from "./schema.ts";

/** A segment whose header is signed by a known machine, and whose rows were not looked at. */
export interface OpenedSegment {
  header: SegmentHeader;
  /** compressed rows */
  packed: Uint8Array;
}

/**
 * Opens the header of a segment.
 *
 * @param keyOf finds the key of a machine
 * @throws {SbxError} `fleet.segment.invalid`; `fleet.machine.unknown`: no key of that machine is known
 */
export async function openSegment(
  bytes: Uint8Array,
  keyOf: (machineId: string) => Promise<PublicKey | undefined> | PublicKey | undefined,
): Promise<OpenedSegment> {
  const end = bytes.subarray(0, HEADER_BYTES_MAX).indexOf(10) + 1;
  if (end === 0) throw invalid("it has no header");
  const envelope = bytes.subarray(0, end);
  // Which key has to fit is in the header: it is believed only after the signature was checked with that key.
  const claimed = await openSigned(envelope, [], "the segment").catch((error) => {
    throw invalid((error as Error).message);
  });
  const key = await keyOf(claimed.key.id);
  if (!key) throw unknownMachine(claimed.key.id);
  const { type, text } = await openSigned(envelope, [key], "the segment").catch((error) => {
    throw invalid((error as Error).message);
  });
  const header = type === SEGMENT_TYPE ? SegmentHeader.safeParse(parse(text)).data : undefined;
  if (!header) throw invalid("its header is not that of a segment");
  if (header.machine_id !== key.id) throw invalid("its machine is not the one that signed it");
  return { header, packed: bytes.subarray(end) };
}

/** Reads the header of one's own segment. @throws {SbxError} `fleet.segment.invalid` */
export function headerOf(bytes: Uint8Array): SegmentHeader {
  const end = bytes.subarray(0, HEADER_BYTES_MAX).indexOf(10) + 1;
  const envelope = parse(new TextDecoder().decode(bytes.subarray(0, end))) as
    | { payload?: string }
    | undefined;
  const payload = Buffer.from(envelope?.payload ?? "", "base64").toString("utf8");
  const header = SegmentHeader.safeParse(parse(payload)).data;
  if (!header) throw invalid("its header is not that of a segment");
  return header;
}

/**
 * Unpacks and verifies the rows of a segment: they are those that were signed, and follow each other from its first heads to
 * its last ones. Of rows whose bodies stayed on the machine, the hash is taken from the machine's signature.
 *
 * @throws {SbxError} `fleet.segment.invalid`
 */
export function verifyRows({ header, packed }: OpenedSegment): Line[] {
  const { body, session_id } = header;
  if (body.bytes > BODY_BYTES_MAX) throw invalid(`its rows have more than ${BODY_BYTES_MAX} bytes`);
  // Before they are unpacked: there is no byte that nobody vouches for, and no bomb but the machine's own.
  if (blake3(packed) !== body.hash) throw invalid("its rows are not those that were signed");
  const unpacked = unpack(packed, body.bytes);
  if (unpacked.length !== body.bytes) throw invalid("its rows are not as long as it says");
  const text = unpacked.toString("utf8");
  const state = new Chains(header.from, header.bound_after);
  const lines: Line[] = [];
  for (let from = 0; from < text.length;) {
    const end = text.indexOf("\n", from);
    const line = parseLine(text.slice(from, end < 0 ? text.length : end));
    if (!line) throw invalid(`row ${lines.length + 1} is none`);
    const problem = state.add(line, session_id);
    if (problem) throw invalid(`row ${lines.length + 1}: ${problem}`);
    lines.push(line);
    from = end < 0 ? text.length : end + 1;
  }
  if (!sameHeads(state.heads, header.to)) throw invalid("its rows do not end where its header says");
  return lines;
}

/** Compares lengths and hashes. */
export function sameHeads(one: ChainHeads, other: ChainHeads): boolean {
  return one.events === other.events && one.head_hash === other.head_hash &&
    one.outcomes === other.outcomes && one.outcome_hash === other.outcome_hash &&
    one.journal === other.journal && one.journal_hash === other.journal_hash;
}

/** The three chains, as rows are added. */
class Chains {
  readonly heads: ChainHeads;

  constructor(from: ChainHeads, readonly boundAfter: number | null) {
    this.heads = { ...from };
  }

  /** @returns the problem of a row */
  add(line: Line, sessionId: string): string | undefined {
    const { heads } = this;
    switch (line.kind) {
      case "event": {
        const { text, hash, record, whole } = line;
        if (whole && digestText(text, heads.head_hash) !== hash) return "the hash does not match the event";
        const sequence = ++heads.events;
        const common = (parse(text) as { common?: { sequence?: number; session_id?: string } } | undefined)
          ?.common;
        if (common?.session_id !== sessionId) return "the event is one of another session";
        if (common.sequence !== sequence) return `the event is not number ${sequence}`;
        const isBound = this.boundAfter !== null && sequence > this.boundAfter;
        heads.head_hash = isBound && record !== null ? digestText(record, hash) : hash;
        return;
      }
      case "outcome": {
        const { text, hash, whole } = line;
        if (whole && digestText(text, heads.outcome_hash) !== hash) {
          return "the hash does not match the outcome";
        }
        if (parse(text) === undefined) return "the outcome is not JSON";
        heads.outcomes++;
        heads.outcome_hash = hash;
        return;
      }
      case "journal": {
        const { of, id, text, hash } = line;
        if (text !== null && digestText(text) !== hash) return `the hash does not match the ${of}`;
        heads.journal++;
        heads.journal_hash = journalLink(of, id, hash, heads.journal_hash);
        return;
      }
    }
  }
}

function unpack(packed: Uint8Array, bytes: number): Buffer {
  try {
    // One byte more than announced: a bomb ends here.
    return bytes === 0 && packed.length === 0
      ? Buffer.alloc(0)
      : zstdDecompressSync(packed, { maxOutputLength: bytes + 1 }) as Buffer;
  } catch {
    throw invalid("its rows cannot be unpacked");
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unknownMachine(id: string): SbxError {
  return new SbxError("fleet.machine.unknown", `machine ${id} is not enrolled`, {
    hint: "sbx-admin fleet token makes a one-time token; sbx fleet enrol uses it on the machine",
  });
}

function invalid(problem: string): SbxError {
  return new SbxError("fleet.segment.invalid", `the segment is refused: ${problem}`, {
    hint: "nothing of it was kept; the machine has the rows and sends them again",
  });
}
