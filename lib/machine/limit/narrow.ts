import type { VmLimits } from "./schema.ts";

/**
 * The smaller value of each limit, and the only one where one side has none.
 * @returns undefined without any limit
 */
export function narrowLimits<L extends Partial<VmLimits>>(
  a: L | undefined,
  b: L | undefined,
): L | undefined {
  const all = [a, b].flatMap((limits) => Object.entries(limits ?? {}))
    .filter((entry): entry is [string, number] => entry[1] !== undefined);
  const least: Record<string, number> = {};
  for (const [key, value] of all) least[key] = Math.min(least[key] ?? Infinity, value);
  return all.length > 0 ? least as L : undefined;
}
