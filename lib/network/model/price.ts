/** Prices of models: the built-in table, a table of the user, and the cost of a call. */
import { SbxError } from "../../base/error/mod.ts";
import { objectOf } from "./json.ts";
import BUILT_IN from "./prices.json" with { type: "json" };

/** Tokens of one call by price category. */
export interface Usage {
  /** tokens neither read from nor written to a cache */
  input: number;
  output: number;
  cacheRead: number;
  /** cache entries stored for minutes */
  cacheWrite: number;
  /** cache entries stored for an hour */
  cacheWriteLong: number;
}

/** US dollars per million tokens, which equals micro-dollars per token. */
interface Rates {
  input: number;
  output: number;
  /** default: `input` */
  cache_read?: number;
  /** default: `input` */
  cache_write?: number;
}

/** Prices of one model. */
interface Price extends Rates {
  provider: string;
  model: string;
  /** rates of the whole call if its input has more than `input_tokens` tokens */
  above?: Rates & { input_tokens: number };
  /** no longer offered: never the price of another model */
  retired?: boolean;
  /** no source has this price */
  unchecked?: boolean;
}

/** Cost of a call. */
export interface Estimate {
  /** millionths of a US dollar */
  micros: number;
  /**
   * Price that was used where the model has none at its provider: that of its family's version before it
   * (`gpt-6.2-sol` for `gpt-6.3-sol`), or the dearest of the provider; or its own one that no source has.
   * Absent: the model's own price.
   */
  basis?: PriceBasis;
}
export type PriceBasis = "family" | "dearest" | "unchecked";

/** Price of a one-hour cache entry relative to `input`. */
const LONG_FACTOR = 2;
/**
 * Suffixes that a model name may have after its name in the table: a release date, a version such as `-001`,
 * or `latest`. `claude-opus-4-8` is another model than `claude-opus-4`.
 */
const VERSION = /^(?:[-@](?:latest|default|20\d{6}|20\d\d-\d\d-\d\d|00\d))?$/;
/** Service tiers at the prices of the table, as providers name them. */
const LIST_TIERS = new Set(["standard", "default", "auto"]);

/** Makers at Bedrock whose own prices it asks. */
const MAKERS = new Set(["anthropic"]);

/** Words of model names that name no family: stages of a release, dates and build numbers. */
const STAGE = /^(?:preview|latest|default|exp|experimental|v?\d+|20\d{6})$/;

/**
 * Price table of models. A model outside the table is priced by its family, else
 * as the dearest of its provider.
 */
export class Prices {
  readonly #prices = new Map<string, Price[]>();

  constructor(prices: readonly Price[]) {
    for (const price of prices) {
      const prices = this.#prices.get(price.provider) ?? [];
      prices.push(price);
      this.#prices.set(price.provider, prices.toSorted((a, b) => b.model.length - a.model.length));
    }
  }

  /**
   * Cost of a call; `undefined` for a provider outside the table, and for a
   * service tier with prices of its own.
   */
  cost(provider: string, model: string, usage: Partial<Usage>, tier = "default"): Estimate | undefined {
    if (provider === "bedrock") return LIST_TIERS.has(tier) ? this.#costAtBedrock(model, usage) : undefined;
    const prices = this.#prices.get(provider);
    if (!LIST_TIERS.has(tier) || !prices) return undefined;
    const own = prices.find((entry) => isVersionOf(model, entry.model));
    if (own) return { micros: costAt(own, usage), ...(own.unchecked && { basis: "unchecked" }) };
    const offered = prices.filter(({ retired }) => !retired);
    const others = offered.length > 0 ? offered : prices;
    // Clouds sell models of other providers too, such as Claude on Vertex AI.
    const everywhere = [...this.#prices.values()].flat();
    const relative = everywhere.find((entry) => isVersionOf(model, entry.model)) ??
      relativeOf(model, others) ?? relativeOf(model, everywhere.filter(({ retired }) => !retired));
    if (relative) return { micros: costAt(relative, usage), basis: "family" };
    return { micros: Math.max(...others.map((price) => costAt(price, usage))), basis: "dearest" };
  }

  /** Makers ask so different prices that none stands for another: a model of no family is not priced. */
  #costAtBedrock(id: string, usage: Partial<Usage>): Estimate | undefined {
    const { maker, model } = bedrockModelOf(id);
    const own = this.#prices.get("bedrock")?.find((entry) =>
      [id, `${maker}.${model}`, model].some((name) => isVersionOf(name, entry.model))
    );
    if (own) return { micros: costAt(own, usage) };
    const theirs = this.#prices.get(maker) ?? [];
    const relative = theirs.find((entry) => isVersionOf(model, entry.model)) ??
      relativeOf(model, theirs.filter(({ retired }) => !retired));
    return relative && { micros: costAt(relative, usage), basis: "family" };
  }
}

/**
 * Maker and model of an id: of a model, of a profile such as
 * `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, or an ARN.
 */
function bedrockModelOf(id: string): { maker: string; model: string } {
  const name = id.slice(id.lastIndexOf("/") + 1).replace(/-v\d+(?::\d+(?::\w+)?)?$/, "");
  const words = name.split(".");
  const at = words.findIndex((word, at) => at < 2 && MAKERS.has(word));
  return at < 0 ? { maker: "", model: name } : { maker: words[at], model: words.slice(at + 1).join(".") };
}

function builtIn(): Price[] {
  const sources: Record<string, { as_of: string; checked?: string } | undefined> = BUILT_IN.sources;
  return BUILT_IN.models.map(({ source, ...price }) => ({ ...price, unchecked: !sources[source]?.checked }));
}

function isVersionOf(model: string, name: string): boolean {
  return model.startsWith(name) && VERSION.test(model.slice(name.length));
}

function costAt(price: Price, usage: Partial<Usage>): number {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, cacheWriteLong = 0 } = usage;
  const totalInput = input + cacheRead + cacheWrite + cacheWriteLong;
  const rates: Rates = price.above && totalInput > price.above.input_tokens ? price.above : price;
  return Math.round(
    input * rates.input + output * rates.output + cacheRead * (rates.cache_read ?? rates.input) +
      cacheWrite * (rates.cache_write ?? rates.input) + cacheWriteLong * rates.input * LONG_FACTOR,
  );
}

/** The version of a model's family that came before it; for a model older than all of them, the dearest. */
function relativeOf(model: string, prices: readonly Price[]): Price | undefined {
  const { family, version } = partsOf(model);
  const relatives = prices.filter((price) => partsOf(price.model).family === family);
  const before = relatives.filter((price) => compareVersions(partsOf(price.model).version, version) <= 0)
    .toSorted((a, b) => compareVersions(partsOf(b.model).version, partsOf(a.model).version));
  return before[0] ?? relatives.toSorted((a, b) => b.output - a.output)[0];
}

/** Family and version of a model: `claude-opus` and 5, 5 of `claude-opus-5-5-20260922`. */
function partsOf(model: string): { family: string; version: number[] } {
  const name = model.toLowerCase().replace(/[-@](?:20\d{6}|20\d\d-\d\d-\d\d|00\d)$/, "");
  const words = name.split(/[-@]/);
  return {
    family: words.filter((word) => !STAGE.test(word)).map((word) => word.replace(/[\d.]+/g, ""))
      .filter((word) => word !== "").join("-"),
    version: words.flatMap((word) => word.match(/\d+/g) ?? []).map(Number),
  };
}

function compareVersions(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Date and nature of the prices shipped with sbx, for people who read costs. */
export const PRICES_NOTE =
  `estimates from list prices; the built-in ones are of ${BUILT_IN.as_of}: check them with the provider`;

/** Prices shipped with sbx. */
export const BUILT_IN_PRICES = new Prices(builtIn());

/**
 * Loads a price table in the format of the built-in one, and adds it to that. Its prices win.
 *
 * @throws {SbxError} `model.prices.invalid`, `model.prices.not_found`
 */
export async function loadPrices(path: string): Promise<Prices> {
  let value: unknown;
  try {
    value = JSON.parse(await Deno.readTextFile(path));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new SbxError("model.prices.not_found", `there is no price table at ${path}`, {
        cause,
        hint: "correct the path, or remove the setting to use the built-in prices",
      });
    }
    throw invalidTable(path, "it cannot be read as JSON", cause);
  }
  const { schema, models } = objectOf(value);
  if (schema !== "sbx.model-prices.v1" || !Array.isArray(models)) {
    throw invalidTable(path, "it has no list of models or another schema");
  }
  const index = models.findIndex((model) => !isPrice(model));
  if (index >= 0) throw invalidTable(path, `models[${index}] is not a valid price`);
  return new Prices([...models, ...builtIn()]);
}

function invalidTable(path: string, reason: string, cause?: unknown): SbxError {
  return new SbxError("model.prices.invalid", `invalid price table ${path}: ${reason}`, {
    cause,
    hint: 'write {"schema": "sbx.model-prices.v1", "models": [{"provider", "model", "input", "output", …}]}',
  });
}

function isPrice(value: unknown): value is Price {
  const { provider, model, above, retired } = objectOf(value);
  return typeof provider === "string" && typeof model === "string" && model !== "" && areRates(value) &&
    (above === undefined || (areRates(above) && isRate(objectOf(above).input_tokens))) &&
    (retired === undefined || typeof retired === "boolean");
}

function areRates(value: unknown): boolean {
  const { input, output, cache_read, cache_write } = objectOf(value);
  return isRate(input) && isRate(output) &&
    [cache_read, cache_write].every((rate) => rate === undefined || isRate(rate));
}

function isRate(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
