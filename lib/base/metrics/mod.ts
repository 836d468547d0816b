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

/** Most samples of one service that are taken. */
const SAMPLES_MAX = 20_000;
const FAMILY = /^# (HELP|TYPE) (sbx_[a-z0-9_]{1,100}|process_[a-z0-9_]{1,100}) (.{1,500})$/;
const SAMPLE =
  /^((?:sbx|process)_[a-z0-9_]{1,110})(?:\{((?:[a-z_]{1,50}="(?:[^"\\]|\\[\\"n]){0,200}",?){0,10})\})? ([-+0-9.eINa-f]{1,40})$/;

/** Metrics of one service, and the labels that its samples get. */
export interface ServiceMetrics {
  labels: Labels;
  text: string;
}

/**
 * Joins the metrics of services of several users. A service is its user's, who may have it write
 * anything: lines that are no metric of sbx are left out, a series comes once, and no service
 * writes a sample of another user.
 */
export function joinMetrics(services: readonly ServiceMetrics[]): string {
  const families = new Map<string, { help?: string; type?: string; samples: string[] }>();
  const seen = new Set<string>();
  for (const { labels, text } of services) {
    let left = SAMPLES_MAX;
    const own = labelText(labels).slice(1, -1);
    let current: string | undefined;
    for (const line of text.split("\n")) {
      const [, kind, name, rest] = FAMILY.exec(line) ?? [];
      if (kind !== undefined) {
        const family = families.get(name) ?? { samples: [] };
        if (kind === "HELP") family.help ??= rest;
        else if (/^(counter|gauge|histogram)$/.test(rest)) family.type ??= rest;
        families.set(name, family);
        current = name;
        continue;
      }
      const [, metric, more = "", value] = SAMPLE.exec(line) ?? [];
      if (metric === undefined || current === undefined || left === 0) continue;
      if (!["", "_bucket", "_sum", "_count"].some((end) => metric === current + end)) continue;
      const names = [...more.matchAll(/(?:^|,)([a-z_]+)="/g)].map(([, label]) => label);
      const key = `${metric}{${own}${more && `,${more}`}}`;
      if (names.some((label) => label in labels) || seen.has(key) || Number.isNaN(Number(value))) continue;
      seen.add(key);
      left--;
      families.get(current)!.samples.push(`${key} ${value}`);
    }
  }
  return [...families].filter(([, { type, samples }]) => type !== undefined && samples.length > 0)
    .map(([name, { help = name, type, samples }]) =>
      `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${samples.join("\n")}\n`
    ).join("");
}
