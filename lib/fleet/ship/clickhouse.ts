import { blake3 } from "../../base/hash/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { ClickHouseClient, lastHeads, parseClickHouse } from "../clickhouse/mod.ts";
import type { SegmentHeader } from "../segment/mod.ts";
import type { Authorize } from "./http.ts";
import type { Report } from "./report.ts";
import { type Mailbox, TableTarget } from "./table.ts";

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
    const session_id = body.kind === "alive" ? "" : body.session_id;
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
