import { headerOf, Heads, sameHeads, type SegmentHeader } from "../segment/mod.ts";
import { type Report, reportOf } from "./report.ts";
import type { Position, Receipt, SegmentTarget } from "./target.ts";

/** Sessions whose end is remembered. */
const SESSIONS_MAX = 10_000;

/** Tables of a database that a receiver reads. */
export interface Mailbox {
  /** the database, for messages */
  readonly name: string;
  /**
   * Heads at the end of a session's last segment, as JSON.
   *
   * @throws {SbxError} `fleet.unavailable`, as all of these
   */
  lastHeads(machineId: string, sessionId: string): Promise<string | undefined>;
  /** Inserts a segment. @returns false: another one begins there */
  insert(header: SegmentHeader, segment: Uint8Array): Promise<boolean>;
  /** Inserts a report, replacing the last one of its kind and session. */
  insertReport(report: Report, envelope: string): Promise<void>;
}

/** A database between machines and a receiver. A segment is inserted at the end of its session's last one. */
export class TableTarget implements SegmentTarget {
  readonly name: string;
  readonly #mailbox: Mailbox;
  readonly #ends = new Map<string, Position>();

  constructor(mailbox: Mailbox) {
    this.#mailbox = mailbox;
    this.name = mailbox.name;
  }

  async send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt> {
    const header = headerOf(segment);
    const { machine_id, session_id, from, to } = header;
    const key = `${machine_id}/${session_id}`;
    for (;;) {
      const end = this.#ends.get(key) ?? await this.#endOf(machine_id, session_id);
      // Until the database has answered it may have the rows or not.
      this.#ends.delete(key);
      if (end && sameHeads(end, to)) return { kept: true };
      // Nothing there: it begins here, or it has expired, and the cursor says where it ended.
      if (end && !sameHeads(end, from)) return { kept: false, position: end };
      if (!await this.#mailbox.insert(header, segment)) continue;
      this.#ends.set(key, to);
      if (this.#ends.size > SESSIONS_MAX) this.#ends.delete(this.#ends.keys().next().value!);
      return { kept: true };
    }
  }

  async report(envelope: string): Promise<void> {
    await this.#mailbox.insertReport(reportOf(envelope), envelope);
  }

  async #endOf(machineId: string, sessionId: string): Promise<Position | undefined> {
    const heads = await this.#mailbox.lastHeads(machineId, sessionId);
    return heads === undefined ? undefined : Heads.parse(JSON.parse(heads));
  }
}
