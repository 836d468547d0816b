/** Candidate with the smallest edit distance to `word`, if at most a third of its length (at least 1). */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate, bestDistance);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * The sentence for a word that names nothing, in every hint: `did you mean "demo"?`. The candidates are words
 * that the caller may see, since one of them is shown.
 *
 * @param show the text for a candidate, such as a command line
 * @returns `undefined`: no candidate is like it
 */
export function didYouMean(
  word: string,
  candidates: Iterable<string>,
  show = (candidate: string) => candidate,
): string | undefined {
  const near = likeliest(word, [...candidates]);
  return near === undefined ? undefined : suggestion(show(near));
}

/** The sentence for a candidate that was found in another way. */
export function suggestion(candidate: string): string {
  return `did you mean "${candidate}"?`;
}

/** By spelling, else the only one with the same letters or this beginning. */
function likeliest(word: string, candidates: readonly string[]): string | undefined {
  const near = nearest(word, candidates) ?? nearest(word.toLowerCase(), candidates);
  if (near !== undefined || word.length < 2) return near;
  const letters = (text: string) => [...text.toLowerCase()].sort().join("");
  const alike = candidates.filter((each) => letters(each) === letters(word));
  const begun = candidates.filter((each) => each.startsWith(word));
  return [alike, begun].find(({ length }) => length === 1)?.[0];
}

/**
 * The nearest of dotted ids: by the whole id, else by its last word (`ram_gb` and `vm.ram_gb` for
 * `vm.resources.ram_gb`), if only one id has that word.
 */
export function nearestId(id: string, ids: readonly string[]): string | undefined {
  const near = nearest(id, ids);
  if (near !== undefined) return near;
  const lastOf = (text: string) => text.slice(text.lastIndexOf(".") + 1);
  const last = nearest(lastOf(id), ids.map(lastOf));
  const alike = ids.filter((each) => lastOf(each) === last);
  return alike.length === 1 ? alike[0] : undefined;
}

/** Edit distance, with a swap of neighbours as one edit; stops at `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let before: number[] = [];
  let above: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    [before, above, row] = [above, row, [i]];
    for (let j = 1; j <= b.length; j++) {
      const replaced = above[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
        ? before[j - 2] + 1
        : limit;
      row[j] = Math.min(above[j] + 1, row[j - 1] + 1, replaced, swapped);
    }
    if (Math.min(...row) > limit) return limit;
  }
  return row[b.length];
}
