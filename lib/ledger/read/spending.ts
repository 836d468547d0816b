/** Sums a session's usage and costs from its record. */
import { EVENTS_WITH_OUTCOMES, selectFamily } from "../schema.ts";
import { selectText, withLedger } from "./open.ts";

/** A session's usage, by its record (docs/design/contracts/04-profiles.md §4, "Budgets"). */
export interface SpendingSums {
  requests: number;
  bytes_out: number;
  tokens: number;
  usd: number;
  minutes: number;
}

/** Calls of a model that were recorded without the amounts that they count for. */
export interface UnstatedCalls {
  provider: string;
  model: string;
  /** from midnight on, UTC */
  isToday: boolean;
  /** tokens that the provider counted */
  tokens: number;
  usd: number;
  /** of the calls that it did not count: `bytes` of their bodies, and how many they are */
  uncountedBytes: number;
  uncounted: number;
}

export interface RecordedSpending {
  total: SpendingSums;
  today: SpendingSums;
  unstated: UnstatedCalls[];
}

/** Statements of what events count for, the last of each. */
const STATED = `SELECT record->>'$.event_id' AS event_id, record->>'$.at_unix_ms' AS at,
    record->>'$.tokens' AS tokens, record->>'$.usd' AS usd, record->>'$.bytes_out' AS bytes_out, max(rowid) AS latest
  FROM statements WHERE kind = 'spending' AND record->>'$.event_id' IS NOT NULL GROUP BY 1`;

/** Events that a budget counts exactly. One that waits for an answer counts: its effect may have begun. */
const COUNTED = `SELECT event->>'$.common.timestamp_unix_ms' AS at,
    coalesce(event->>'$.http.request.bytes', length(CAST(event->>'$.dns.request.qname' AS BLOB)) + ?, 0) AS bytes
  FROM ${EVENTS_WITH_OUTCOMES} WHERE entries.event_type IN ('http.request', 'dns.query') AND (
    entries.decision = 'allow' OR outcomes.decision = 'allow' OR
    entries.decision = 'ask' AND (outcomes.decision IS NULL OR outcome->>'$.response' IS NOT NULL))`;

/**
 * Reads a session's usage so far.
 *
 * @param since unix `ms` of midnight
 * @param questionBytes `bytes` of a DNS question beside its name
 * @throws {SbxError} as {@linkcode withLedger}
 */
export function readSpending(path: string, since: number, questionBytes: number): Promise<RecordedSpending> {
  return withLedger(path, async (client) => {
    const sums = async (columns: Record<string, string>, from: string, args: number[]) => {
      const list = Object.entries(columns).map(([name, sql]) => `${sql} AS ${name}`).join(", ");
      const [row] = await selectText(
        client,
        Object.keys(columns),
        `FROM (SELECT ${list} FROM (${from}))`,
        args,
      );
      return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value ?? 0)]));
    };
    const both = (name: string, sum: string) => ({
      [name]: sum,
      [`${name}_today`]: `${sum} FILTER (WHERE at >= ${since})`,
    });
    const events = await sums(
      { ...both("requests", "count(*)"), ...both("bytes_out", "sum(bytes)") },
      COUNTED,
      [questionBytes],
    );
    const stated = await sums(
      {
        ...both("tokens", "sum(tokens)"),
        ...both("usd", "sum(usd)"),
        ...both("bytes_out", "sum(bytes_out)"),
      },
      STATED,
      [],
    );
    const time = await sums(
      { minutes: "max(minutes)", minutes_before: `max(minutes) FILTER (WHERE at < ${since})` },
      "SELECT record->>'$.at_unix_ms' AS at, record->>'$.minutes' AS minutes FROM statements WHERE kind = 'spending'",
      [],
    );
    const names = ["provider", "model", "is_today", "tokens", "micros", "uncounted_bytes", "uncounted"];
    const rows = await selectText(client, names, `FROM (${unstatedCalls(since)})`);
    return {
      total: {
        requests: events.requests,
        bytes_out: events.bytes_out + stated.bytes_out,
        tokens: stated.tokens,
        usd: stated.usd,
        minutes: time.minutes,
      },
      today: {
        requests: events.requests_today,
        bytes_out: events.bytes_out_today + stated.bytes_out_today,
        tokens: stated.tokens_today,
        usd: stated.usd_today,
        minutes: time.minutes - time.minutes_before,
      },
      unstated: rows.map((row) => ({
        provider: row.provider ?? "",
        model: row.model ?? "",
        isToday: row.is_today === "1",
        tokens: Number(row.tokens ?? 0),
        usd: Number(row.micros ?? 0) / 1e6,
        uncountedBytes: Number(row.uncounted_bytes ?? 0),
        uncounted: Number(row.uncounted ?? 0),
      })),
    };
  });
}

/** Calls of the time before there was a budget, by model. */
function unstatedCalls(since: number): string {
  const isUncounted = "output_tokens IS NULL AND coalesce(status BETWEEN 200 AND 299, 1)";
  return `SELECT provider, model, timestamp_unix_ms >= ${since} AS is_today,
      sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) AS tokens,
      sum(coalesce(estimated_cost_micros, 0)) AS micros,
      sum(coalesce(request_body->>'$.size', 0)) FILTER (WHERE ${isUncounted}) AS uncounted_bytes,
      count(*) FILTER (WHERE ${isUncounted}) AS uncounted
    FROM (${selectFamily("model")}) WHERE coalesce(decision, 'allow') <> 'block'
      AND operation NOT IN ('files', 'countTokens', 'messages.count_tokens', 'responses.input_tokens')
      AND event_id NOT IN (SELECT event_id FROM (${STATED})) GROUP BY 1, 2, 3`;
}

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

/** Usage of the calls to one model on one day. */
export interface DayCosts extends ModelCosts {
  /** UTC, as budgets count: `2026-11-30` */
  day: string;
}

/**
 * Sums up the model calls of a session by day, the oldest first, the most expensive model of a day first.
 * @param since unix `ms`, of the calls that count
 */
export function readCostsByDay(path: string, since = 0): Promise<DayCosts[]> {
  return withLedger(path, async (client) => {
    const sums =
      `SELECT date(timestamp_unix_ms / 1000, 'unixepoch') AS day, provider, model, count(*) AS calls,
        coalesce(sum(input_tokens), 0) AS input_tokens,
        coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens,
        coalesce(sum(output_tokens), 0) AS output_tokens,
        coalesce(sum(estimated_cost_micros), 0) AS cost_micros,
        sum(estimated_cost_micros IS NULL AND coalesce(input_tokens, output_tokens) IS NOT NULL) AS unpriced_calls,
        sum(price_basis IS NOT NULL) AS estimated_calls,
        min(price_basis) AS price_basis
      FROM (${selectFamily("model")}) WHERE status IS NOT NULL AND timestamp_unix_ms >= ?
      GROUP BY 1, provider, model`;
    const rows = await selectText(
      client,
      ["day", "provider", "model", "price_basis", ...NUMBERS],
      `FROM (${sums}) ORDER BY day, cost_micros DESC, calls DESC, provider, model`,
      [since],
    );
    return rows.map((row) =>
      ({
        day: row.day ?? "",
        provider: row.provider ?? "",
        model: row.model ?? "",
        ...Object.fromEntries(NUMBERS.map((name) => [name, Number(row[name])])),
        ...(row.price_basis && { price_basis: row.price_basis }),
      }) as DayCosts
    );
  });
}

/** Sums up rows that have one key, in the order of their first ones. */
export function sumCosts<T extends ModelCosts>(rows: readonly T[], keyOf: (row: T) => string): T[] {
  const sums = new Map<string, T>();
  for (const row of rows) {
    const key = keyOf(row);
    const sum = sums.get(key);
    if (sum) addCosts(sum, row);
    else sums.set(key, { ...row });
  }
  return [...sums.values()];
}

function addCosts(sum: ModelCosts, row: ModelCosts): void {
  for (const name of NUMBERS) sum[name] += row[name];
  const bases = [sum.price_basis, row.price_basis].filter((basis) => basis !== undefined).sort();
  if (bases.length > 0) sum.price_basis = bases[0];
}

/** The costs of days by model, the most expensive model first. */
export function costsByModel(days: readonly DayCosts[]): ModelCosts[] {
  const models = sumCosts<ModelCosts>(
    days.map(({ day: _, ...costs }) => costs),
    ({ provider, model }) => JSON.stringify([provider, model]),
  );
  const nameOf = ({ provider, model }: ModelCosts) => `${provider} ${model}`;
  return models.sort((a, b) =>
    b.cost_micros - a.cost_micros || b.calls - a.calls || (nameOf(a) < nameOf(b) ? -1 : 1)
  );
}

/** Sums up the model calls of a session, the most expensive model first. */
export async function readCosts(path: string): Promise<ModelCosts[]> {
  return costsByModel(await readCostsByDay(path));
}
