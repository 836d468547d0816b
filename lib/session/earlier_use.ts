/**
 * A session's use in its earlier processes, read from its record (docs/design/contracts/04-profiles.md
 * §4, "Budgets").
 */
import { log } from "../base/log/mod.ts";
import { type Cost, DNS_BYTES, OUTPUT_MAX, type Spent } from "../policy/budget/mod.ts";

/**
 * Reads the use of a session so far.
 *
 * @param path its ledger, with every row written
 * @returns a text: why the use is unknown, as a clause
 */
export async function readSpent(path: string, cost: Cost, now = Date.now()): Promise<Spent | string> {
  try {
    // Loads the database, which this thread needs for nothing else.
    const { readSpending } = await import("../ledger/read/mod.ts");
    const midnight = now - now % 86_400_000;
    const { total, today, unstated } = await readSpending(path, midnight, DNS_BYTES);
    for (const { provider, model, isToday, tokens, usd, uncountedBytes, uncounted } of unstated) {
      const usage = { input: uncountedBytes, output: uncounted * OUTPUT_MAX };
      const price = uncounted > 0 ? (cost(provider, model, usage) ?? 0) / 1e6 : 0;
      for (const sums of isToday ? [total, today] : [total]) {
        sums.tokens += tokens + usage.input + usage.output;
        sums.usd += usd + price;
      }
    }
    return { total, today };
  } catch (error) {
    log.error((error as Error).message);
    return `the session's use so far cannot be read from its record: ${(error as Error).message}`;
  }
}
