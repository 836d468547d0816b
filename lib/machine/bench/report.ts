/** Measured values, with their units. */
export const MEASURES = {
  cpu: "10 million steps of integer arithmetic",
  memory: "256 MiB copied",
  workspace_write: "16 MiB written to /workspace and synced",
  workspace_files: "a file of 4 KiB in /workspace made, read and removed",
  own_write: "16 MiB written to the VM's own disk and synced",
  own_files: "a file of 4 KiB on the VM's own disk made, read and removed",
  process: "a program started and ended",
  network: "a connection and an answer through the proxy",
} as const;

export type MeasureName = keyof typeof MEASURES;
export const MEASURE_NAMES = Object.keys(MEASURES) as MeasureName[];

/** `ms` by name. */
export type Measures = Record<MeasureName, number>;

/** What `sbx-bench` in a guest prints. */
export interface GuestBench {
  schema: "sbx.guest-bench.v1";
  measures: Partial<Measures>;
}

/** One line of a report: medians of the rounds in `ms`, and the median of their ratios. */
export interface BenchLine {
  name: MeasureName;
  what: string;
  vm_ms: number;
  host_ms: number;
  /** of the VM to the host; 1 is as fast */
  ratio: number;
}

export interface BenchReport {
  schema: "sbx.bench.v1";
  vm: string;
  rounds: number;
  measures: BenchLine[];
}

/** Measurements of one round, in which guest and host took turns. */
export interface BenchRound {
  guest: Partial<Measures>;
  host: Partial<Measures>;
}

/** Makes the report of all rounds. A ratio is made within a round, since load changes between rounds. */
export function benchReport(vm: string, rounds: readonly BenchRound[]): BenchReport {
  const measures = MEASURE_NAMES.flatMap((name): BenchLine[] => {
    const pairs = rounds.flatMap(({ guest, host }) =>
      guest[name] === undefined || host[name] === undefined ? [] : [[guest[name], host[name]]]
    );
    if (pairs.length === 0) return [];
    const [vm_ms, host_ms, ratio] = [
      median(pairs.map(([guest]) => guest)),
      median(pairs.map(([, host]) => host)),
      // A clock with coarse ticks may measure nothing.
      median(pairs.map(([guest, host]) => guest / Math.max(host, Number.EPSILON))),
    ].map(rounded);
    return [{ name, what: MEASURES[name], vm_ms, host_ms, ratio }];
  });
  return { schema: "sbx.bench.v1", vm, rounds: rounds.length, measures };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Three digits are more than measurements repeat. */
function rounded(value: number): number {
  return Number(value.toPrecision(3));
}
