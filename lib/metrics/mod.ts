/** Metrics in the text format of Prometheus (docs/metrics.md). */
export { Histogram, type LabelSets, type Metric, OTHER, Value } from "./metric.ts";
