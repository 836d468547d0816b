import { SbxError } from "../base/error/mod.ts";
import BUILT_IN from "./prices.json" with { type: "json" };
import { object } from "./json.ts";

/** Tokens of one call by what they cost. */
export interface Usage {
  /** neither from a cache nor into one */
  input: number;
  output: number;
  cacheRead: number;
  /** kept for minutes */
  cacheWrite: number;
  /** kept for an hour */
  cacheWriteLong: number;
}

/** US dollars for a million tokens, which is micros for one. */
interface Rates {
  input: number;
  output: number;
  /** absent: as input */
  cache_read?: number;
  /** absent: as input */
  cache_write?: number;
}

/** Prices of one model. */
interface Price extends Rates {
  provider: string;
  model: string;
  /** what holds for the whole call when its input is longer than so many tokens */
  above?: Rates & { input_tokens: number };
}

/** A cache entry that lives an hour costs twice the input. */
const LONG_FACTOR = 2;
/** What may follow the name of a model that is in the table: the date of its release, or the latest one. */
const VERSION = /^(?:[-@](?:latest|default|20\d{6}|20\d\d-\d\d-\d\d|\d{3}))?$/;

/** What models cost. A model that is not in it has no cost: nobody guesses. */
export class Prices {
  readonly #prices = new Map<string, Price[]>();

  constructor(prices: readonly Price[]) {
    for (const price of prices) {
      const known = this.#prices.get(price.provider) ?? [];
      known.push(price);
      this.#prices.set(price.provider, known.toSorted((a, b) => b.model.length - a.model.length));
    }
  }

  /** Millionths of a US dollar; `undefined` for a model that is not in the table. */
  cost(provider: string, model: string, usage: Partial<Usage>): number | undefined {
    const price = this.#prices.get(provider)?.find((each) =>
      model.startsWith(each.model) && VERSION.test(model.slice(each.model.length))
    );
    if (!price) return undefined;
    const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, cacheWriteLong = 0 } = usage;
    const all = input + cacheRead + cacheWrite + cacheWriteLong;
    const rates: Rates = price.above && all > price.above.input_tokens ? price.above : price;
    return Math.round(
      input * rates.input + output * rates.output + cacheRead * (rates.cache_read ?? rates.input) +
        cacheWrite * (rates.cache_write ?? rates.input) + cacheWriteLong * rates.input * LONG_FACTOR,
    );
  }
}

/** The prices that sbx brings along. */
export const BUILT_IN_PRICES = new Prices(BUILT_IN.models);

/**
 * A price table of the user's own, in place of the built-in one; it has the same shape.
 *
 * @throws {SbxError} `model.prices.invalid`, `model.prices.not_found`
 */
export async function loadPrices(path: string): Promise<Prices> {
  let value: unknown;
  try {
    value = JSON.parse(await Deno.readTextFile(path));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new SbxError("model.prices.not_found", `there is no price table at ${path}`, { cause });
    }
    throw invalid(path, "it cannot be read as JSON", cause);
  }
  const { schema, models } = object(value);
  if (schema !== "sbx.model-prices.v1" || !Array.isArray(models)) {
    throw invalid(path, "it has no list of models");
  }
  const wrong = models.findIndex((each) => !isPrice(each));
  if (wrong >= 0) throw invalid(path, `models[${wrong}] is no price`);
  return new Prices(models);
}

function invalid(path: string, what: string, cause?: unknown): SbxError {
  return new SbxError("model.prices.invalid", `the price table ${path} is not used: ${what}`, {
    cause,
    hint: 'it is {"schema": "sbx.model-prices.v1", "models": [{"provider", "model", "input", "output", …}]}',
  });
}

function isPrice(value: unknown): value is Price {
  const { provider, model, above } = object(value);
  return typeof provider === "string" && typeof model === "string" && model !== "" && areRates(value) &&
    (above === undefined || (areRates(above) && isRate(object(above).input_tokens)));
}

function areRates(value: unknown): boolean {
  const { input, output, cache_read, cache_write } = object(value);
  return isRate(input) && isRate(output) &&
    [cache_read, cache_write].every((each) => each === undefined || isRate(each));
}

function isRate(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
