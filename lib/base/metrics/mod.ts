/**
 * Metrics in the text format of Prometheus (docs/guides/metrics.md). The format has version 0.0.4. Each
 * label has a fixed set of values, so that nothing a guest chooses becomes a name of a series; any
 * other value is counted as `other`.
 */

/** Labels of a metric, with all of their values. */
export type LabelSets = Record<string, readonly string[]>;
type Labels = Record<string, string>;

/** Stands for every value outside of a label's set. */
export const OTHER = "other";

/** A metric as it is written. */
export interface Metric {
  render(): string;
}

/** Fields of every metric. */
interface Family {
  name: string;
  help: string;
  labels?: LabelSets;
}

/** Text of a label's value. */
const escapeValue = (value: string) =>
  value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
const escapeHelp = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

function head({ name, help }: Family, type: string): string {
  return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`);
  return pairs.length ? `{${pairs.join(",")}}` : "";
}

/** Values in the order of the declaration, each one of its set. */
function admitted({ labels = {} }: Family, given: Labels): Labels {
  return Object.fromEntries(
    Object.entries(labels).map(([name, values]) => [
      name,
      values.includes(given[name]) ? given[name] : OTHER,
    ]),
  );
}

/** A number that is set, or that only grows. */
export class Value implements Metric {
  readonly #family: Family;
  readonly #type: "counter" | "gauge";
  readonly #values = new Map<string, number>();

  private constructor(family: Family, type: "counter" | "gauge") {
    this.#family = family;
    this.#type = type;
    // Only a series that exists from the beginning shows its first increase.
    if (!family.labels) this.#values.set("", 0);
  }

  static counter(family: Family): Value {
    return new Value(family, "counter");
  }

  static gauge(family: Family): Value {
    return new Value(family, "gauge");
  }

  add(labels: Labels = {}, by = 1): void {
    const key = labelText(admitted(this.#family, labels));
    this.#values.set(key, (this.#values.get(key) ?? 0) + by);
  }

  set(value: number, labels: Labels = {}): void {
    this.#values.set(labelText(admitted(this.#family, labels)), value);
  }

  render(): string {
    const { name } = this.#family;
    const lines = [...this.#values].map(([labels, value]) => `${name}${labels} ${value}\n`);
    return head(this.#family, this.#type) + lines.join("");
  }
}

/** A distribution of times, in seconds. */
export class Histogram implements Metric {
  readonly #family: Family;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, { labels: Labels; counts: number[]; sum: number; count: number }>();

  /** @param bounds of the buckets, ascending, without infinity */
  constructor(family: Family, bounds: readonly number[]) {
    this.#family = family;
    this.#bounds = bounds;
    if (!family.labels) this.#seriesOf({});
  }

  observe(seconds: number, labels: Labels = {}): void {
    if (!Number.isFinite(seconds)) return;
    const series = this.#seriesOf(admitted(this.#family, labels));
    series.sum += seconds;
    series.count++;
    this.#bounds.forEach((bound, at) => {
      if (seconds <= bound) series.counts[at]++;
    });
  }

  #seriesOf(labels: Labels) {
    const key = labelText(labels);
    let series = this.#series.get(key);
    if (!series) {
      this.#series.set(key, series = { labels, counts: this.#bounds.map(() => 0), sum: 0, count: 0 });
    }
    return series;
  }

  render(): string {
    const { name } = this.#family;
    const lines = [...this.#series.values()].flatMap(({ labels, counts, sum, count }) => [
      ...counts.map((value, at) =>
        `${name}_bucket${labelText({ ...labels, le: String(this.#bounds[at]) })} ${value}\n`
      ),
      `${name}_bucket${labelText({ ...labels, le: "+Inf" })} ${count}\n`,
      `${name}_sum${labelText(labels)} ${sum}\n`,
      `${name}_count${labelText(labels)} ${count}\n`,
    ]);
    return head(this.#family, "histogram") + lines.join("");
  }
}

// Metrics of several services in one text.

/** Most samples of one user that are taken, and most characters of a label's value. */
const SAMPLES_MAX = 20_000, VALUE_MAX = 200;
const FAMILY = /^# (HELP|TYPE) ((?:sbx|process)_[a-z0-9_]{1,100}) (.{1,500})$/;
const SAMPLE = /^((?:sbx|process)_[a-z0-9_]{1,110})(?:\{(.{0,4000})\})? (\S{1,40})$/;
/** A label, with what follows it. Names with `_` in front are reserved: node_exporter ends by one. */
const LABEL = /^([a-z][a-z0-9_]{0,49})="((?:[^"\\]|\\[\\"n])*)"(?:,(?=.)|$)/;
const LABELS_MAX = 10;
/** A text with the escapes of the format alone. */
const HELP = /^(?:[^\\]|\\[\\n])*$/;
const NUMBER = /^-?\d{1,30}(?:\.\d{1,30})?(?:e[-+]?\d{1,3})?$/;

/** Metrics of one service, and the labels that its samples get. */
export interface ServiceMetrics {
  labels: Labels;
  text: string;
}

/**
 * Joins the metrics of services of several users. A service is its user's, who may have it write
 * anything: lines that are no metric of sbx are left out, a series comes once, no service
 * writes a sample of another user, and a reader can parse all that is left. Metrics `process_…` get `sbx_`
 * in front: node_exporter has its own ones.
 */
export function joinMetrics(services: readonly ServiceMetrics[]): string {
  const families = new Map<string, { help?: string; samples: string[] }>();
  const seen = new Set<string>();
  const reserved = new Set(services.flatMap(({ labels }) => Object.keys(labels)));
  const left = new Map<string | undefined, number>();
  for (const { labels, text } of services) {
    const own = Object.entries(labels).map(([name, value]): [string, string] => [
      name,
      escapeValue(value.slice(0, VALUE_MAX)),
    ]);
    let current: string | undefined;
    for (const line of text.split("\n")) {
      const [, kind, name, rest] = FAMILY.exec(line) ?? [];
      if (kind !== undefined) {
        current = /_(?:bucket|sum|count)$/.test(name) ? undefined : name;
        if (kind !== "HELP" || current === undefined || !HELP.test(rest)) continue;
        const family = families.get(name) ?? { samples: [] };
        family.help ??= rest;
        families.set(name, family);
        continue;
      }
      const [, metric, more = "", value] = SAMPLE.exec(line) ?? [];
      const count = left.get(labels.user) ?? SAMPLES_MAX;
      if (metric === undefined || current === undefined || count === 0) continue;
      if (!NUMBER.test(value) || !Number.isFinite(Number(value))) continue;
      const isBucket = metric === `${current}_bucket`;
      const ends = typeOf(current) === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      if (!ends.some((end) => metric === current + end)) continue;
      const given = labelsOf(more);
      if (!given || given.some(([label]) => reserved.has(label)) || isBucket !== hasBound(given)) continue;
      const pairs = [...own, ...given].map(([label, text]) => `${label}="${text}"`).join(",");
      const key = `${outNameOf(metric)}${pairs && `{${pairs}}`}`;
      if (seen.has(key)) continue;
      seen.add(key);
      left.set(labels.user, count - 1);
      const family = families.get(current) ?? { samples: [] };
      family.samples.push(`${key} ${value}`);
      families.set(current, family);
    }
  }
  return [...families].filter(([, { samples }]) => samples.length > 0)
    .map(([name, { help = name, samples }]) => {
      const out = outNameOf(name);
      return `# HELP ${out} ${help}\n# TYPE ${out} ${typeOf(name)}\n${samples.join("\n")}\n`;
    }).join("");
}

/** The type by the name, as all of sbx's metrics have it: one that a service writes would be all users'. */
function typeOf(name: string): "counter" | "gauge" | "histogram" {
  if (name.endsWith("_total")) return "counter";
  return name.startsWith("sbx_") && name.endsWith("_seconds") ? "histogram" : "gauge";
}

const outNameOf = (name: string) => name.startsWith("process_") ? `sbx_${name}` : name;

/** Labels in the order of their names. @returns undefined: no labels of the format, or one twice */
function labelsOf(text: string): [string, string][] | undefined {
  const labels = new Map<string, string>();
  for (let rest = text; rest !== "";) {
    const [all, name, value] = LABEL.exec(rest) ?? [];
    if (all === undefined || labels.has(name) || value.length > VALUE_MAX || labels.size === LABELS_MAX) {
      return undefined;
    }
    labels.set(name, value);
    rest = rest.slice(all.length);
  }
  return [...labels].sort(([a], [b]) => a < b ? -1 : 1);
}

/** True for labels of a bucket. @returns undefined: `le` is no number, which no sample may have */
function hasBound(labels: readonly [string, string][]): boolean | undefined {
  const bound = labels.find(([name]) => name === "le")?.[1];
  if (bound === undefined) return false;
  return bound === "+Inf" || NUMBER.test(bound) && Number.isFinite(Number(bound)) ? true : undefined;
}
