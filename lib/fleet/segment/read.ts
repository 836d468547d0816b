/** Reads segments from untrusted machines: no part of one counts before all of it is verified. */
import { Buffer } from "node:buffer";
import { zstdDecompressSync } from "node:zlib";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type ChainHeads, digestText, journalLink, sameHeads } from "../../ledger/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { FLEET_LOG_TYPE, openSigned, SEGMENT_TYPE } from "../../release/signing/mod.ts";
import { type Line, parseLine, Redaction, SegmentHeader } from "./schema.ts";

/** A segment whose header is signed by a known machine, and whose rows are not checked yet. */
export interface OpenedSegment {
  header: SegmentHeader;
  /** compressed rows */
  packed: Uint8Array;
  /** in a store: rows of it were erased */
  redaction?: Redaction;
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

/**
 * Opens a segment of a store, whose rows may have been erased since.
 *
 * @param storeKey key with which the store signs erasures; absent: it has none
 * @throws as {@linkcode openSegment}
 */
export async function openStored(
  bytes: Uint8Array,
  keyOf: (machineId: string) => Promise<PublicKey | undefined> | PublicKey | undefined,
  storeKey?: PublicKey,
): Promise<OpenedSegment> {
  const opened = await openSegment(bytes, keyOf);
  const { header, packed } = opened;
  // Compressed rows begin with another byte.
  if (packed[0] !== BRACE) return opened;
  const end = packed.subarray(0, REDACTION_BYTES_MAX).indexOf(10) + 1;
  if (end === 0 || !storeKey) throw invalid("its rows were changed, and no store signed for it");
  const { type, text, key } = await openSigned(packed.subarray(0, end), [storeKey], "the redaction").catch(
    (error) => {
      throw invalid((error as Error).message);
    },
  );
  const redaction = type === FLEET_LOG_TYPE && key.trusted
    ? Redaction.safeParse(parse(text)).data
    : undefined;
  if (!redaction) throw invalid("its rows were changed, and the store did not sign for it");
  const isOfIt = redaction.machine_id === header.machine_id && redaction.session_id === header.session_id &&
    redaction.original === header.body.hash;
  if (!isOfIt) throw invalid("its redaction is of another segment");
  return { header, packed: packed.subarray(end), redaction };
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
 * Unpacks and verifies a segment's rows: they are the signed ones, and form a chain from its first heads to
 * its last. For rows whose bodies stayed on the machine, the hash comes from the machine's signature.
 *
 * @throws {SbxError} `fleet.segment.invalid`
 */
export function verifyRows(opened: OpenedSegment): Line[] {
  const lines: Line[] = [];
  const state = new Chains(opened.header, true, opened.redaction !== undefined);
  eachRow(opened, (text) => {
    const line = parseLine(text);
    if (line) lines.push(line);
    return line ? state.add(line) : "it is malformed";
  });
  return state.end(lines);
}

/**
 * Verifies the rows as {@linkcode verifyRows} does, in a third of its time: without objects, and without
 * parsing the rows' JSON. A row of invalid JSON was still signed by its machine; tables and `sbx-admin fleet
 * verify` parse it.
 *
 * @throws {SbxError} `fleet.segment.invalid`
 */
export function verifyChains(opened: OpenedSegment): void {
  const state = new Chains(opened.header, false);
  eachRow(opened, (text) => {
    const line = parseLine(text);
    return line ? state.add(line) : "it is malformed";
  });
  state.end(undefined);
}

/** Unpacks rows. @param onRow returns the problem of a row */
function eachRow({ header, packed, redaction }: OpenedSegment, onRow: (text: string) => string | undefined) {
  const body = redaction?.body ?? header.body;
  if (body.bytes > BODY_BYTES_MAX) throw invalid(`its rows have more than ${BODY_BYTES_MAX} bytes`);
  // Before unpacking: every byte is vouched for, and a decompression bomb can only be the machine's own.
  if (blake3(packed) !== body.hash) throw invalid("its rows differ from the signed ones");
  const unpacked = unpack(packed, body.bytes);
  if (unpacked.length !== body.bytes) throw invalid("its rows are not as long as it says");
  const text = unpacked.toString("utf8");
  for (let from = 0, row = 1; from < text.length; row++) {
    const end = text.indexOf("\n", from);
    const problem = onRow(text.slice(from, end < 0 ? text.length : end));
    if (problem) throw invalid(`row ${row}: ${problem}`);
    from = end < 0 ? text.length : end + 1;
  }
}

/** The three chains, as rows are added. */
class Chains {
  readonly #header: SegmentHeader;
  readonly #heads: ChainHeads;
  /** whether the JSON of each row is read */
  readonly #isRead: boolean;
  /** erased rows are valid, as in a store; a machine sends none */
  readonly #mayLack: boolean;

  constructor(header: SegmentHeader, isRead: boolean, mayLack = false) {
    this.#header = header;
    this.#heads = { ...header.from };
    this.#isRead = isRead;
    this.#mayLack = mayLack;
  }

  /** @returns the problem of a row */
  add(line: Line): string | undefined {
    const heads = this.#heads;
    switch (line.kind) {
      case "event": {
        const { text, hash, record, whole } = line;
        if (whole && digestText(text + heads.head_hash) !== hash) return "the hash does not match the event";
        const sequence = ++heads.events;
        const problem = this.#problemOf(text, sequence);
        if (problem) return problem;
        const { bound_after } = this.#header;
        const isBound = bound_after !== null && sequence > bound_after;
        heads.head_hash = isBound && record !== null ? digestText(record + hash) : hash;
        return;
      }
      case "erased": {
        if (!this.#mayLack) return "it was erased, and no store signed for it";
        if (line.of === "event") {
          heads.events++;
          heads.head_hash = line.link;
        } else {
          heads.outcomes++;
          heads.outcome_hash = line.hash;
        }
        return;
      }
      case "outcome": {
        const { text, hash, whole } = line;
        if (whole && digestText(text + heads.outcome_hash) !== hash) {
          return "the hash does not match the outcome";
        }
        if (this.#isRead && parse(text) === undefined) return "the outcome is not JSON";
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

  /** @throws {SbxError} `fleet.segment.invalid`: rows are missing at the end */
  end<T>(value: T): T {
    if (sameHeads(this.#heads, this.#header.to)) return value;
    throw invalid("its rows do not end where its header says");
  }

  /** Session and sequence of an event, in its JSON or where canonical JSON has them. */
  #problemOf(text: string, sequence: number): string | undefined {
    const { session_id } = this.#header;
    if (!this.#isRead && text.startsWith(START)) {
      const at = text.indexOf(`"sequence":${sequence},"session_id":"${session_id}"`, START.length);
      if (at >= 0) return undefined;
    }
    const common = (parse(text) as { common?: { sequence?: number; session_id?: string } } | undefined)
      ?.common;
    if (common?.session_id !== session_id) return "the event is one of another session";
    return common.sequence === sequence ? undefined : `the event is not number ${sequence}`;
  }
}

/** Start of an event in canonical JSON. */
const START = '{"common":{';

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
    hint: "sbx-admin fleet token DIR makes a one-time token; sbx fleet enrol uses it on the machine",
  });
}

function invalid(problem: string): SbxError {
  return new SbxError("fleet.segment.invalid", `the segment is refused: ${problem}`, {
    hint: "none of it was kept; the machine has the rows and sends them again",
  });
}

// Limits of segments (docs/design/contracts/14-limits.md §14).

/** Largest segment as sent, and largest unpacked, in `bytes`: one event can have 32 MiB of text. */
export const SEGMENT_BYTES_MAX = 64 * 1024 * 1024;
export const BODY_BYTES_MAX = 256 * 1024 * 1024;
/** Largest header in its envelope, in `bytes`. */
export const HEADER_BYTES_MAX = 16 * 1024;
/** Largest redaction in its envelope, in `bytes`: a thousand ids. */
const REDACTION_BYTES_MAX = 128 * 1024;
/** First byte of an envelope. */
const BRACE = 0x7b;
