/**
 * Ships ledgers of one machine, session by session, each row exactly once by its position
 * (docs/guides/fleet.md).
 */
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { type ChainHeads, sameHeads, START_HEADS } from "../../ledger/mod.ts";
import { isRest, type LedgerRows, readHeadsAt, readRowsAfter } from "../../ledger/read/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import { type BodyGrant, Heads, makeSegment } from "../segment/mod.ts";
import { makeReport, type ReportBody } from "./report.ts";
import type { SegmentTarget } from "./target.ts";
import { join } from "node:path";
import { z } from "zod";
import { writeAtomic } from "../../base/home/mod.ts";

export interface ShipperOptions {
  /** folder of the cursors */
  dir: string;
  key: SigningKey;
  target: SegmentTarget;
  /** bodies that may leave the machine */
  grants?: readonly BodyGrant[];
}

/** Rows that were sent. */
export interface Shipped {
  events: number;
  rows: number;
  segments: number;
  bytes: number;
}

/** Ships ledgers to one collector. Calls for one session must be sequential. */
export class Shipper {
  readonly #options: ShipperOptions;
  readonly #cursors = new Map<string, Cursor>();
  readonly #origins = new Map<string, Map<string, { family: string; host?: string }>>();

  constructor(options: ShipperOptions) {
    this.#options = options;
  }

  /**
   * Sends all rows of a ledger that the collector lacks. Rows written meanwhile wait for the next call: a
   * small segment costs as much as a large one, and under traffic there would be one after another.
   *
   * @throws {SbxError} `fleet.unavailable`: a later call sends the rest; `fleet.denied`, `fleet.refused`,
   * `fleet.forked`; errors of an unreadable ledger
   */
  async ship(sessionId: string, path: string): Promise<Shipped> {
    const { key, target, grants } = this.#options;
    const sum: Shipped = { events: 0, rows: 0, segments: 0, bytes: 0 };
    const { heads, forked: isForked } = await this.cursor(sessionId);
    if (isForked) throw forked(sessionId, target.name);
    // A ledger without the rows that were sent is another one, even if it is longer.
    if (!await hadHeads(path, heads)) await this.#fork(sessionId, path, heads);
    for (let moves = 0;;) {
      const cursor = await this.cursor(sessionId);
      const rows = await readRowsAfter(path, cursor.heads);
      const count = countOf(rows);
      if (count === 0) return sum;
      const terms = {
        key,
        session_id: sessionId,
        ...(grants && { grants }),
        origins: this.#originsOf(sessionId),
      };
      const segment = await makeSegment(rows, terms);
      const receipt = await target.send(segment);
      if (receipt.kept) {
        await this.#move(sessionId, { ...cursor, heads: rows.to });
        sum.events += rows.to.events - rows.from.events;
        sum.rows += count;
        sum.segments++;
        sum.bytes += segment.length;
        if (isRest(rows)) return sum;
      } else {
        if (!await hadHeads(path, receipt.position)) await this.#fork(sessionId, path, receipt.position);
        // Two collectors behind one address would send it back and forth forever.
        if (++moves > MOVES_MAX) throw lost(target.name);
        await this.#move(sessionId, { ...cursor, heads: receipt.position });
      }
    }
  }

  /** Reports facts that are in no row to the collector. */
  async report(body: ReportBody): Promise<void> {
    await this.#options.target.report(await makeReport(this.#options.key, body));
  }

  /** Reports the end of a session, once. @param heads of its ledger */
  async end(sessionId: string, heads: ChainHeads, unflushed: boolean): Promise<void> {
    const cursor = await this.cursor(sessionId);
    if (cursor.ended) return;
    await this.report({ kind: "ended", session_id: sessionId, heads, unflushed });
    await this.#move(sessionId, { ...cursor, ended: true });
    this.#origins.delete(sessionId);
  }

  /** Begins the cursor of a session, before its first row is sent. */
  async enter(sessionId: string): Promise<void> {
    if (this.#cursors.has(sessionId)) return;
    const cursor = await this.cursor(sessionId);
    if (!await hasCursor(this.#options.dir, sessionId)) await this.#move(sessionId, cursor);
  }

  /** Closes the cursor of a session whose loss was noted: no report follows. */
  async close(sessionId: string): Promise<void> {
    await this.#move(sessionId, { ...await this.cursor(sessionId), ended: true });
  }

  /** How far a session was shipped. */
  async cursor(sessionId: string): Promise<Cursor> {
    let cursor = this.#cursors.get(sessionId);
    if (!cursor) {
      cursor = await readCursor(this.#options.dir, sessionId, this.#options.target.name);
      this.#cursors.set(sessionId, cursor);
    }
    return cursor;
  }

  /** Forgets a session whose ledger is gone. */
  forget(sessionId: string): void {
    this.#cursors.delete(sessionId);
    this.#origins.delete(sessionId);
  }

  async #move(sessionId: string, cursor: Cursor): Promise<void> {
    await writeCursor(this.#options.dir, sessionId, cursor);
    this.#cursors.set(sessionId, cursor);
  }

  async #fork(sessionId: string, path: string, there: ChainHeads): Promise<never> {
    const { readHeads } = await import("../../ledger/read/mod.ts");
    const here = await readHeads(path);
    await this.report({ kind: "fork", session_id: sessionId, here, there });
    await this.#move(sessionId, { ...await this.cursor(sessionId), forked: true });
    throw forked(sessionId, this.#options.target.name);
  }

  #originsOf(sessionId: string): Map<string, { family: string; host?: string }> {
    let origins = this.#origins.get(sessionId);
    if (!origins) this.#origins.set(sessionId, origins = new Map());
    return origins;
  }
}

/** Most moves to the collector's position in one call. */
const MOVES_MAX = 3;

function countOf({ from, to }: LedgerRows): number {
  return to.events - from.events + to.outcomes - from.outcomes + to.journal - from.journal;
}

/** True if a ledger had these heads. */
async function hadHeads(path: string, heads: ChainHeads): Promise<boolean> {
  return sameHeads(await readHeadsAt(path, heads), heads);
}

function forked(sessionId: string, name: string): SbxError {
  return new SbxError("fleet.forked", `the collector ${name} has another record of session ${sessionId}`, {
    hint:
      "the record here was restored from a backup or changed; sbx verify NAME checks it, and sbx-admin fleet verify DIR shows the collector's copy",
  });
}

function lost(name: string): SbxError {
  return new SbxError("fleet.unavailable", `the collector ${name} does not report its position`, {
    hint: "two collectors may share one address; check the receiver's log",
  });
}

// Progress of each session's shipping: a small file a session, written after the collector has the rows.

const Cursor = z.strictObject({
  /** collector that has the rows */
  target: z.string(),
  heads: Heads,
  /** the session's end was reported */
  ended: z.boolean(),
  /** the collector has another record of this session; nothing more is sent */
  forked: z.boolean(),
});

export type Cursor = z.infer<typeof Cursor>;

/** Reads a cursor; a missing, damaged or foreign one restarts: the collector knows its own position. */
export async function readCursor(dir: string, sessionId: string, target: string): Promise<Cursor> {
  try {
    const cursor = Cursor.parse(JSON.parse(await Deno.readTextFile(pathOf(dir, sessionId))));
    if (cursor.target === target) return cursor;
  } catch {
    // A damaged cursor counts as missing.
  }
  return { target, heads: START_HEADS, ended: false, forked: false };
}

function hasCursor(dir: string, sessionId: string): Promise<boolean> {
  return Deno.lstat(pathOf(dir, sessionId)).then(() => true, () => false);
}

export async function writeCursor(dir: string, sessionId: string, cursor: Cursor): Promise<void> {
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  await writeAtomic(pathOf(dir, sessionId), JSON.stringify(cursor) + "\n");
}

export async function removeCursor(dir: string, sessionId: string): Promise<void> {
  await ifFound(Deno.remove(pathOf(dir, sessionId)));
}

function pathOf(dir: string, sessionId: string): string {
  return join(dir, `${sessionId}.json`);
}
