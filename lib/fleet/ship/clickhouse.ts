import { blake3 } from "../../base/hash/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { ClickHouseClient, lastHeads, parseClickHouse } from "../clickhouse/mod.ts";
import { headerOf, Heads, sameHeads } from "../segment/mod.ts";
import type { Authorize } from "./http.ts";
import { reportOf } from "./report.ts";
import type { Position, Receipt, SegmentTarget } from "./target.ts";

/** Sessions whose end is remembered. */
const SESSIONS_MAX = 10_000;

/**
 * Tables of a ClickHouse server, which a receiver reads (`fleet serve --from clickhouse://…`). A segment is inserted where the
 * last one of its session ends; one that comes again, after an answer that was lost, is known by its token.
 */
export class ClickHouseTarget implements SegmentTarget {
  readonly name: string;
  readonly #client: ClickHouseClient;
  readonly #ends = new Map<string, Position>();

  constructor(url: string, authorize?: Authorize) {
    const address = parseClickHouse(url);
    this.name = address.name;
    this.#client = new ClickHouseClient(address, authorize);
  }

  async send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt> {
    const { machine_id, session_id, from, to, body } = headerOf(segment);
    const key = `${machine_id}/${session_id}`;
    return await this.#try(async () => {
      const end = this.#ends.get(key) ?? await this.#endOf(machine_id, session_id);
      if (end && sameHeads(end, to)) return { kept: true };
      // Nothing there: it begins here, or it has expired, and the cursor says where it ended.
      if (end && !sameHeads(end, from)) {
        this.#ends.delete(key);
        return { kept: false, position: end };
      }
      // Until the server has answered it may have the rows or not.
      this.#ends.delete(key);
      const token = blake3(`${key} ${to.events} ${to.outcomes} ${to.journal} ${body.hash}`);
      const row = {
        machine_id,
        session_id,
        from_events: from.events,
        from_outcomes: from.outcomes,
        from_journal: from.journal,
        to_heads: JSON.stringify(to),
        segment: segment.toBase64(),
      };
      await this.#client.insert(
        "segments",
        [row],
        ["insert_deduplicate = 1", `insert_deduplication_token = '${token}'`, "async_insert = 0"],
      );
      this.#ends.set(key, to);
      if (this.#ends.size > SESSIONS_MAX) this.#ends.delete(this.#ends.keys().next().value!);
      return { kept: true };
    });
  }

  async report(envelope: string): Promise<void> {
    const { machine_id, made_at, body } = reportOf(envelope);
    const session_id = body.kind === "alive" ? "" : body.session_id;
    const row = { machine_id, kind: body.kind, session_id, made_at, report: envelope };
    await this.#try(() => this.#client.insert("reports", [row]));
  }

  async #endOf(machineId: string, sessionId: string): Promise<Position | undefined> {
    const heads = await lastHeads(this.#client, machineId, sessionId);
    return heads === undefined ? undefined : Heads.parse(JSON.parse(heads));
  }

  /** Whatever the server says, such as that it is full: the rows stay here until it takes them. */
  async #try<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      if (cause instanceof SbxError && cause.code === "fleet.query.failed") {
        throw new SbxError("fleet.unavailable", cause.message, {
          cause,
          hint: "the rows are kept in the ledgers of this machine, and sent later",
        });
      }
      throw cause;
    }
  }
}
