/**
 * The middle of some figures: what benchmarks report, because one slow run on a
 * busy machine does not move it.
 */
export function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

/** A figure as benchmarks print it. */
export function rounded(value: number, digits = 2): number {
  return Number(value.toFixed(digits));
}

/** Milliseconds that some work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}
