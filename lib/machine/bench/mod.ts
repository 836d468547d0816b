/** Benchmarks of a guest beside its host. Loads no zod: guests bundle it. */
export { type BenchOptions, type BenchPlaces, measure, RUNS_DEFAULT } from "./measure.ts";
export {
  type BenchLine,
  type BenchReport,
  benchReport,
  type BenchRound,
  type GuestBench,
  MEASURE_NAMES,
  type MeasureName,
  MEASURES,
  type Measures,
} from "./report.ts";
