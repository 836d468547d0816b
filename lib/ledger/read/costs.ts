import { selectFamily } from "../views.ts";
import { withLedger } from "./open.ts";
import { selectText } from "./text.ts";

/** Usage of the calls to one model. */
export interface ModelCosts {
  provider: string;
  model: string;
  /** that were answered */
  calls: number;
  input_tokens: number;
  /** of the input, read from a cache */
  cached_input_tokens: number;
  output_tokens: number;
  /** in millionths of a US dollar, of the calls whose price is known */
  cost_micros: number;
  /** calls with tokens whose price is not known */
  unpriced_calls: number;
  /** calls at the price of another model */
  estimated_calls: number;
  /** whose price these are at; the dearest of the provider where one of them is */
  price_basis?: "family" | "dearest" | "unchecked";
}

const NUMBERS = [
  "calls",
  "input_tokens",
  "cached_input_tokens",
  "output_tokens",
  "cost_micros",
  "unpriced_calls",
  "estimated_calls",
] as const;

/** Sums up the model calls of a session, the most expensive model first. */
export function readCosts(path: string): Promise<ModelCosts[]> {
  return withLedger(path, async (client) => {
    const sums = `SELECT provider, model, count(*) AS calls,
        coalesce(sum(input_tokens), 0) AS input_tokens,
        coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens,
        coalesce(sum(output_tokens), 0) AS output_tokens,
        coalesce(sum(estimated_cost_micros), 0) AS cost_micros,
        sum(estimated_cost_micros IS NULL AND coalesce(input_tokens, output_tokens) IS NOT NULL) AS unpriced_calls,
        sum(price_basis IS NOT NULL) AS estimated_calls,
        min(price_basis) AS price_basis
      FROM (${selectFamily("model")}) WHERE status IS NOT NULL GROUP BY provider, model`;
    const rows = await selectText(
      client,
      ["provider", "model", "price_basis", ...NUMBERS],
      `FROM (${sums}) ORDER BY cost_micros DESC, calls DESC, provider, model`,
    );
    return rows.map((row) =>
      ({
        provider: row.provider ?? "",
        model: row.model ?? "",
        ...Object.fromEntries(NUMBERS.map((name) => [name, Number(row[name])])),
        ...(row.price_basis && { price_basis: row.price_basis }),
      }) as ModelCosts
    );
  });
}
