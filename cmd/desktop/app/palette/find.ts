/** Finds entries of the command palette by the letters that a person types. */

/** An entry: a page, a VM, a rule, a setting or an action. */
export interface Entry {
  id: string;
  /** its kind in words, such as `VM` */
  kind: string;
  label: string;
  /** more words that find it */
  words?: string;
  run: () => unknown;
}

/** Entries in the list. */
const FOUND_MAX = 30;

/**
 * Rank of a match: the word starts the entry, starts one of its words, is
 * inside, or has its letters in order.
 */
function meets(label: string, words: string, wanted: string): number {
  if (label.startsWith(wanted)) return 4;
  const all = `${label} ${words}`;
  if (new RegExp(`(^|[\\s._/:-])${escape(wanted)}`).test(all)) return 3;
  if (all.includes(wanted)) return 2;
  return isWithin(label, wanted) ? 1 : 0;
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** True when the letters of `wanted` are in `text`, in their order. */
function isWithin(text: string, wanted: string): boolean {
  let at = 0;
  for (const letter of wanted) {
    at = text.indexOf(letter, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

/** Entries that meet every word, the best first; without words, the first ones. */
export function findEntries(entries: Entry[], typed: string): Entry[] {
  const wanted = typed.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (wanted.length === 0) return entries.slice(0, FOUND_MAX);
  return entries
    .map((entry) => {
      const label = entry.label.toLowerCase(), words = `${entry.words ?? ""} ${entry.kind}`.toLowerCase();
      const marks = wanted.map((word) => meets(label, words, word));
      return { entry, mark: Math.min(...marks) === 0 ? 0 : marks.reduce((sum, mark) => sum + mark, 0) };
    })
    .filter(({ mark }) => mark > 0)
    .sort((a, b) => b.mark - a.mark || a.entry.label.length - b.entry.label.length)
    .slice(0, FOUND_MAX)
    .map(({ entry }) => entry);
}
