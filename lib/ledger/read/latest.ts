import type { LedgerFinding } from "../entry.ts";
import { withLedger } from "./open.ts";
import { parseJson, selectText } from "./text.ts";

/** An event that was refused. */
export interface DeniedEvent {
  sequence: number;
  event_id: string;
  event_type: string;
  rule_id: string | null;
}

/** The latest security findings and denials of a session, newest first. */
export interface LatestSecurity {
  findings: LedgerFinding[];
  denied: DeniedEvent[];
}

/** Reads the last findings of a session, and the last events that a rule or a guard refused at once. */
export function readLatest(path: string, limit: number): Promise<LatestSecurity> {
  return withLedger(path, async (client) => {
    const findings = await selectText(client, ["finding"], "FROM findings ORDER BY rowid DESC LIMIT ?", [
      limit,
    ]);
    const denied = await selectText(
      client,
      ["sequence", "event_id", "event_type", "rule_id"],
      "FROM entries WHERE decision = 'block' ORDER BY sequence DESC LIMIT ?",
      [limit],
    );
    return {
      findings: findings.flatMap(({ finding }) => parseJson<LedgerFinding>(finding) ?? []),
      denied: denied.map(({ sequence, event_id, event_type, rule_id }) => ({
        sequence: Number(sequence),
        event_id: event_id ?? "",
        event_type: event_type ?? "",
        rule_id,
      })),
    };
  });
}
