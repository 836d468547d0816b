/** Names of the terminals of jobs, which this browser keeps. */

/** Place of the names in the storage of this origin. */
const PLACE = "sbx-terminals";
/** Most names that are kept; the oldest are forgotten. */
const NAMES_MAX = 200;

export type Names = Readonly<Record<string, string>>;

export function readNames(): Names {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(PLACE) ?? "{}");
    return Object.fromEntries(
      Object.entries(found ?? {}).filter((pair): pair is [string, string] => typeof pair[1] === "string"),
    );
  } catch {
    return {};
  }
}

/** The names with one more; an empty one takes it away. */
export function withName(names: Names, job: string, name: string): Names {
  const others = Object.entries(names).filter(([each]) => each !== job);
  const all = name.trim() === "" ? others : [...others, [job, name.trim()]];
  return Object.fromEntries(all.slice(-NAMES_MAX));
}

export function writeNames(names: Names): void {
  localStorage.setItem(PLACE, JSON.stringify(names));
}

/** The first of some numbered names that no other has. */
export function freeName(numbered: (number: number) => string, taken: readonly string[]): string {
  for (let number = 2;; number++) {
    if (!taken.includes(numbered(number))) return numbered(number);
  }
}
