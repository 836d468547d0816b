/**
 * A strict parser of the text format of Prometheus, version 0.0.4: what promtool
 * refuses or warns of is an error.
 */
import { assert } from "@std/assert";

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface ParsedFamily {
  name: string;
  type: string;
  help: string;
  samples: Sample[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\\n]|\\[\\"n])*")*)\})? (\S+)$/;
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/;

export function parseExposition(text: string): Map<string, ParsedFamily> {
  assert(text.endsWith("\n"), "the last line ends with a newline");
  const families = new Map<string, ParsedFamily>();
  const seen = new Set<string>();
  let current: ParsedFamily = { name: "", help: "", type: "", samples: [] };
  for (const line of text.slice(0, -1).split("\n")) {
    if (line.startsWith("# HELP ")) {
      const [, name, help] = /^# HELP (\S+) (.+)$/.exec(line) ?? [];
      assert(name && NAME.test(name) && !families.has(name), `HELP once a metric: ${line}`);
      families.set(name, current = { name, help, type: "", samples: [] });
    } else if (line.startsWith("# TYPE ")) {
      const [, name, type] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? [];
      assert(name === current.name && !current.type && !current.samples.length, line);
      current.type = type;
      if (type === "counter") assert(name.endsWith("_total"), `a counter ends with _total: ${name}`);
      else assert(!name.endsWith("_total"), name);
    } else {
      const sample = parseSample(line);
      assert(current.type, `a sample follows its TYPE: ${line}`);
      const suffixes = current.type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      assert(
        suffixes.some((end) => sample.name === current.name + end),
        `${sample.name} in ${current.name}`,
      );
      const key = sample.name + JSON.stringify(Object.entries(sample.labels).sort());
      assert(!seen.has(key), `a series twice: ${line}`);
      seen.add(key);
      current.samples.push(sample);
    }
  }
  for (const family of families.values()) {
    assert(family.type, `${family.name} has no TYPE`);
    if (family.type === "histogram") checkHistogram(family);
    if (family.type === "counter") assert(family.samples.every(({ value }) => value >= 0));
  }
  return families;
}

function parseSample(line: string): Sample {
  const [, name, text = "", number] = SAMPLE.exec(line) ?? [];
  assert(name, `no sample: ${line}`);
  const labels: Record<string, string> = {};
  for (let rest = text; rest !== "";) {
    const [all = "", key, value] = LABEL.exec(rest) ?? [];
    assert(all !== "" && !(key in labels), `bad labels: ${line}`);
    labels[key] = value;
    rest = rest.slice(all.length);
  }
  const value = Number(number);
  assert(Number.isFinite(value), `no number: ${line}`);
  return { name, labels, value };
}

/** Buckets grow, end with +Inf, and agree with the count. */
function checkHistogram({ name, samples }: ParsedFamily): void {
  const seriesOf = ({ labels: { le: _, ...labels } }: Sample) => JSON.stringify(labels);
  for (const [key, series] of Map.groupBy(samples, seriesOf)) {
    const buckets = series.filter((each) => each.name === `${name}_bucket`);
    const bounds = buckets.map(({ labels: { le } }) => le === "+Inf" ? Infinity : Number(le));
    assert(bounds.at(-1) === Infinity, `${name}${key}: the last bucket is +Inf`);
    assert(bounds.every((bound, at) => at === 0 || bound > bounds[at - 1]), `${name}${key}: bounds ascend`);
    assert(
      buckets.every(({ value }, at) => at === 0 || value >= buckets[at - 1].value),
      `${name}${key}: cumulative`,
    );
    const count = series.find((each) => each.name === `${name}_count`);
    assert(count?.value === buckets.at(-1)!.value, `${name}${key}: count`);
    assert(series.some((each) => each.name === `${name}_sum`), `${name}${key}: sum`);
  }
}
