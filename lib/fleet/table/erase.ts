/** Erases rows from the tables of a ClickHouse server. */
import type { ClickHouseClient } from "../clickhouse/mod.ts";
import type { Chain, EraseTables, Range } from "../erase/mod.ts";

/** Ranges in one statement. */
const RANGES = 500;

/** Tables of a server that `sbx-admin fleet serve --clickhouse` fills. */
export function serverTables(client: ClickHouseClient): EraseTables {
  return {
    name: client.address.name,
    async erase({ machine_id, session_id }, rows) {
      // Ids were checked: hex characters and hyphens.
      const own = `machine_id = '${machine_id}' AND session_id = '${session_id}'`;
      for (const [chain, ranges] of Object.entries(rows) as [Chain, Range[]][]) {
        const number = chain === "events" ? "sequence" : "number";
        for (let at = 0; at < ranges.length; at += RANGES) {
          const numbers = ranges.slice(at, at + RANGES).map(([from, to]) =>
            `${number} BETWEEN ${from} AND ${to}`
          );
          await client.run(
            `ALTER TABLE ${chain} DELETE WHERE ${own} AND (${
              numbers.join(" OR ")
            }) SETTINGS mutations_sync = 2`,
          );
        }
      }
    },
  };
}
