/** Rows outside the chains of events and outcomes, as `sbx verify` checks them. */
import type { Client } from "@libsql/client/sqlite3";
import { blake3 } from "../../base/hash/mod.ts";
import { digestText } from "../link.ts";
import { parseJson, selectText } from "./text.ts";
import type { Problem } from "./verify_chain.ts";

/** Bodies read at a time: they have any size. */
const PAGE_BODIES = 16;

/**
 * Checks rows with JSON and its hash.
 *
 * @param keys columns that repeat members of the JSON, the row's id first
 * @param json column of the JSON
 */
export async function checkRecords(
  client: Client,
  table: string,
  keys: string[],
  json: string,
): Promise<Problem> {
  for (const row of await selectText(client, [...keys, json, "hash"], `FROM ${table} ORDER BY rowid`)) {
    const record = parseJson<Record<string, unknown>>(row[json]);
    if (digestText(row[json] ?? "") !== row.hash || keys.some((key) => record?.[key] !== row[key])) {
      return { event_id: row.event_id ?? "", reason: `row ${row[keys[0]]} of ${table} was changed` };
    }
  }
}

export async function checkBodies(client: Client): Promise<Problem> {
  for (let after = 0;;) {
    const { rows } = await client.execute({
      sql: `SELECT rowid AS row, CAST(hash AS BLOB) AS hash, CAST(bytes AS BLOB) AS bytes FROM body_blobs
              WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE_BODIES}`,
      args: [after],
    });
    if (!rows.length) return undefined;
    for (const { row, hash, bytes } of rows) {
      const name = new TextDecoder().decode(hash as ArrayBuffer);
      if (blake3(new Uint8Array(bytes as ArrayBuffer)) !== name) {
        return { reason: `body ${name} was changed` };
      }
      after = row as number;
    }
  }
}

export async function checkStructure(client: Client): Promise<Problem> {
  const { rows } = await client.execute(
    "SELECT CAST(integrity_check AS BLOB) = CAST('ok' AS BLOB) AS ok FROM pragma_integrity_check(1)",
  );
  return rows[0]?.ok === 1 ? undefined : { reason: "the structure of the database is damaged" };
}

/** Tables that the journal binds: their id, and the row of the journal that counts where an id has several. */
const BOUND = [
  { kind: "finding", table: "findings", id: "finding_id", order: "ASC" },
  { kind: "approval", table: "approvals", id: "ask_id", order: "DESC" },
  { kind: "statement", table: "statements", id: "statement_id", order: "ASC" },
  { kind: "body", table: "body_blobs", id: "hash", order: "ASC" },
];

/** Compares findings, answers and bodies with the journal, which has a row for each that was written. */
export async function checkBound(client: Client): Promise<Problem> {
  for (const { kind, table, id, order } of BOUND) {
    const [gone] = await selectText(
      client,
      ["id"],
      `FROM journal WHERE kind = '${kind}' AND id NOT IN (SELECT ${id} FROM ${table}) ORDER BY number LIMIT 1`,
    );
    if (gone) return { reason: `row ${gone.id} of ${table} is missing` };
    const [changed] = await selectText(
      client,
      [`${table}.${id}`],
      `FROM ${table} WHERE hash IS NOT (SELECT journal.hash FROM journal
         WHERE kind = '${kind}' AND journal.id = ${table}.${id} ORDER BY number ${order} LIMIT 1) LIMIT 1`,
    );
    if (changed) return { reason: `row ${changed[id]} of ${table} was added or changed` };
  }
}

/** Finds an outcome, a finding or an answer of an event that the ledger does not have. */
export async function checkReferences(client: Client): Promise<Problem> {
  for (const table of ["outcomes", "findings", "approvals"]) {
    const [row] = await selectText(
      client,
      ["event_id"],
      `FROM ${table} WHERE event_id NOT IN (SELECT event_id FROM entries) LIMIT 1`,
    );
    if (row) {
      return { event_id: row.event_id ?? "", reason: `${table} has a row of an event that is not there` };
    }
  }
}
