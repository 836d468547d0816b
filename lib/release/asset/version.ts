/** Order of asset versions, `YYYY.MMDD.N`. @returns negative when `a` is older */
export function compareAssetVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  const at = left.findIndex((number, index) => number !== right[index]);
  return at < 0 ? 0 : left[at] - right[at];
}
