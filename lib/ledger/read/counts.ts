/** Counts the events of a ledger over time, by family and decision, or by rule. */
import { DECISION, FAMILY } from "../schema.ts";
import { type EventConditions, selectionOf, TIME } from "./events.ts";
import { selectText, withLedger } from "./open.ts";

/** Rows that one statement counts: the database answers without giving way to others. */
const COUNT_ROWS = 5000;

/** Events of one family with one final decision, within one step of time. */
export interface EventCount {
  /** begin of the step, unix `ms` */
  at: number;
  family: string;
  /** absent: nothing decided on them */
  decision?: string;
  events: number;
}

/**
 * Counts the events that meet the conditions. A step of time comes more than once, with counts to add up.
 *
 * @param step `ms`; steps begin at its multiples
 */
export function countEvents(
  path: string,
  conditions: EventConditions,
  step: number,
  take: (count: EventCount) => void,
): Promise<void> {
  const { from, args } = selectionOf(conditions);
  const width = `?${args.length + 3}`;
  const counted = `FROM (SELECT CAST(${TIME} / ${width} AS INTEGER) AS slot, ${FAMILY} AS family,
    ${DECISION} AS decided, count(*) AS events ${from} GROUP BY 1, 2, 3)`;
  return withLedger(path, async (client) => {
    const { rows: [{ last }] } = await client.execute("SELECT max(sequence) AS last FROM entries");
    for (let after = 0; after < Number(last ?? 0); after += COUNT_ROWS) {
      const columns = ["slot", "family", "decided", "events"];
      const rows = await selectText(client, columns, counted, [after, after + COUNT_ROWS, ...args, step]);
      for (const { slot, family, decided, events } of rows) {
        take({
          at: Number(slot) * step,
          family: family ?? "",
          ...(decided !== null && { decision: decided }),
          events: Number(events),
        });
      }
      await new Promise((resolve) => setTimeout(resolve));
    }
  });
}

/** Counts the events of a ledger that each rule decided on first. @param since unix `ms` */
export function countByRule(path: string, since: number): Promise<Map<string, number>> {
  const { from, args } = selectionOf({ since });
  const counted = `FROM (SELECT entries.rule_id AS rule, count(*) AS events ${from}
    AND entries.rule_id IS NOT NULL GROUP BY 1)`;
  const counts = new Map<string, number>();
  return withLedger(path, async (client) => {
    const { rows: [{ last }] } = await client.execute("SELECT max(sequence) AS last FROM entries");
    for (let after = 0; after < Number(last ?? 0); after += COUNT_ROWS) {
      const rows = await selectText(client, ["rule", "events"], counted, [
        after,
        after + COUNT_ROWS,
        ...args,
      ]);
      for (const { rule, events } of rows) counts.set(rule!, (counts.get(rule!) ?? 0) + Number(events));
      await new Promise((resolve) => setTimeout(resolve));
    }
    return counts;
  });
}
