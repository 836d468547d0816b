import { FleetDatabase } from "../libsql/mod.ts";
import type { SegmentHeader } from "../segment/mod.ts";
import type { Authorize } from "./http.ts";
import type { Report } from "./report.ts";
import { type Mailbox, TableTarget } from "./table.ts";

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
    const session_id = body.kind === "alive" ? "" : body.session_id;
    await this.database.run(
      "INSERT OR REPLACE INTO fleet_reports (machine_id, kind, session_id, report) VALUES (?, ?, ?, ?)",
      [machine_id, body.kind, session_id, report],
    );
  }
}
