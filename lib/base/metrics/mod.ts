/**
 * Metrics in the text format of Prometheus (docs/guides/metrics.md). The format has version 0.0.4. Each label has a
 * fixed set of values, so that nothing a guest chooses becomes a name of a series; any other value is counted as
 * `other`.
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
