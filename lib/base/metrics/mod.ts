/** Metrics in the text format of Prometheus (docs/guides/metrics.md). */
export { Histogram, type LabelSets, type Metric, OTHER, Value } from "./metric.ts";
