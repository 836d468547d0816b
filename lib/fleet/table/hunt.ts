/** Hunts over the records of many sessions: packs as SQL, matched by their engine. */
import type { DetectionIr, IrRule } from "../../detection/mod.ts";
import { type HuntPeriod, huntSql } from "../../detection/sql/mod.ts";
import type { FleetRecords } from "./records.ts";

/** A match of a rule with an event of some session. */
export interface HuntRow {
  machine_id: string;
  session_id: string;
  sequence: number;
  event_id: string;
  event_type: string;
  timestamp_unix_ms: number;
  rule_id: string;
  pack_id: string;
  title: string;
  severity: IrRule["severity"];
}

/** Runs packs. @returns the matches by machine, session and event */
export async function hunt(
  { engine, source }: Pick<FleetRecords, "engine" | "source">,
  irs: readonly DetectionIr[],
  period: HuntPeriod = {},
): Promise<HuntRow[]> {
  const { sql, parameters, rules } = huntSql(irs, engine.dialect, source, period);
  const rows = await engine.rows(sql, parameters);
  return rows.map(({ rule: index, ...row }) => {
    const { rule, pack_id } = rules[Number(index)];
    return { ...row, rule_id: rule.id, pack_id, title: rule.title, severity: rule.severity } as HuntRow;
  });
}
