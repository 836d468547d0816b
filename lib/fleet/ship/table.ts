/** Databases between machines and a receiver, which reads their tables. */
import { headerOf, Heads, sameHeads, type SegmentHeader } from "../segment/mod.ts";
import { type Report, reportOf, slotOf } from "./report.ts";
import type { Position, Receipt, SegmentTarget } from "./target.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { ClickHouseClient, lastHeads, parseClickHouse } from "../clickhouse/mod.ts";
import type { Authorize } from "./http.ts";
import { FleetDatabase } from "../libsql.ts";

/** Sessions whose end is remembered. */
const SESSIONS_MAX = 10_000;

/** Tables of a database that a receiver reads. */
interface Mailbox {
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
class TableTarget implements SegmentTarget {
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

/**
 * Tables of a ClickHouse server, which a receiver reads (`fleet serve --from clickhouse://…`). A segment sent
 * again after a lost answer is recognized by its token.
 */
export class ClickHouseTarget extends TableTarget {
  constructor(url: string, authorize?: Authorize) {
    super(new ClickHouseMailbox(new ClickHouseClient(parseClickHouse(url), authorize)));
  }
}

class ClickHouseMailbox implements Mailbox {
  readonly name: string;

  constructor(readonly client: ClickHouseClient) {
    this.name = client.address.name;
  }

  lastHeads(machineId: string, sessionId: string): Promise<string | undefined> {
    return kept(lastHeads(this.client, machineId, sessionId));
  }

  async insert({ machine_id, session_id, from, to, body }: SegmentHeader, segment: Uint8Array) {
    const token = blake3(
      [machine_id, session_id, to.events, to.outcomes, to.journal, body.hash].join(" "),
    );
    const row = {
      machine_id,
      session_id,
      from_events: from.events,
      from_outcomes: from.outcomes,
      from_journal: from.journal,
      to_heads: JSON.stringify(to),
      segment: segment.toBase64(),
    };
    const settings = [
      "insert_deduplicate = 1",
      `insert_deduplication_token = '${token}'`,
      "async_insert = 0",
    ];
    await kept(this.client.insert("segments", [row], settings));
    return true;
  }

  async insertReport({ machine_id, made_at, body }: Report, report: string): Promise<void> {
    const session_id = slotOf(body);
    await kept(this.client.insert("reports", [{ machine_id, kind: body.kind, session_id, made_at, report }]));
  }
}

/** Any server error, such as a full disk: the rows stay here until it takes them. */
async function kept<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (!(cause instanceof SbxError) || cause.code !== "fleet.query.failed") throw cause;
    throw new SbxError("fleet.unavailable", cause.message, {
      cause,
      hint: "the rows are kept in the ledgers of this machine, and sent later",
    });
  }
}

/** Tables of a libSQL server, which a receiver reads (`fleet serve --from libsql://…`). Two segments cannot begin at one place. */
export class LibsqlTarget extends TableTarget {
  constructor(url: string, authorize?: Authorize) {
    super(new LibsqlMailbox(new FleetDatabase(url, authorize)));
  }
}

class LibsqlMailbox implements Mailbox {
  readonly name: string;

  constructor(readonly database: FleetDatabase) {
    this.name = database.name;
  }

  async lastHeads(machineId: string, sessionId: string): Promise<string | undefined> {
    const { rows: [row] } = await this.database.run(
      `SELECT to_heads FROM fleet_segments WHERE machine_id = ? AND session_id = ?
ORDER BY from_events DESC, from_outcomes DESC, from_journal DESC LIMIT 1`,
      [machineId, sessionId],
    );
    return row && String(row.to_heads);
  }

  async insert({ machine_id, session_id, from, to }: SegmentHeader, segment: Uint8Array): Promise<boolean> {
    const { changed } = await this.database.run(
      `INSERT OR IGNORE INTO fleet_segments
(machine_id, session_id, from_events, from_outcomes, from_journal, to_heads, segment) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      [
        machine_id,
        session_id,
        from.events,
        from.outcomes,
        from.journal,
        JSON.stringify(to),
        segment.toBase64(),
      ],
    );
    return changed === 1;
  }

  async insertReport({ machine_id, body }: Report, report: string): Promise<void> {
    const session_id = slotOf(body);
    await this.database.run(
      "INSERT OR REPLACE INTO fleet_reports (machine_id, kind, session_id, report) VALUES (?, ?, ?, ?)",
      [machine_id, body.kind, session_id, report],
    );
  }
}
