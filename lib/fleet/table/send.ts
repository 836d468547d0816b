/** New findings of hunts on their way to a sink. */
import { type Compiled, findingOf, isPlan } from "../../detection/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { FindingSinks } from "../../ledger/sink/mod.ts";
import { listMachines } from "../receive/mod.ts";
import type { HuntRow } from "./hunt.ts";
import type { FleetRecords } from "./records.ts";

/**
 * Queues findings for sinks, each with its event.
 *
 * @param over records with tables
 */
export async function sendFindings(
  dir: string,
  { engine, table }: Pick<FleetRecords, "engine" | "table">,
  irs: readonly Compiled[],
  rows: readonly HuntRow[],
  sinks: FindingSinks,
): Promise<void> {
  if (rows.length === 0) return;
  const names = new Map((await listMachines(dir)).map(({ machine_id, name }) => [machine_id, name]));
  const value = (name: string, type: string) =>
    engine.dialect === "duckdb" ? `$${name}` : `{${name}:${type}}`;
  const sql = `SELECT e.event AS event FROM ${table!("events")} AS e WHERE e.machine_id = ${
    value("machine", "String")
  } AND e.session_id = ${value("session", "String")} AND e.sequence = ${value("sequence", "Int64")} LIMIT 1`;
  for (const { machine_id, session_id, sequence, pack_id, rule_id } of rows) {
    const ir = irs.find((each) => each.pack_id === pack_id);
    const rules = ir && (isPlan(ir) ? [...ir.rules, ...ir.correlations] : ir.rules);
    const rule = rules?.find(({ id }) => id === rule_id);
    const [found] = await engine.rows(sql, {
      machine: { type: "string", values: [machine_id] },
      session: { type: "string", values: [session_id] },
      sequence: { type: "number", values: [sequence] },
    });
    if (!rule || !found) continue;
    const event = JSON.parse(String(found.event)) as Event;
    sinks.send(findingOf(event, { rule, pack_id }), event, {
      made_by: { user: "unknown", device: names.get(machine_id) ?? machine_id, client: "fleet hunt" },
    });
  }
}
