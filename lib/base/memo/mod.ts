/**
 * Results of pure functions of short texts, kept for the texts that come again
 * and again: hosts, content types.
 */

/** Results that one function keeps. */
const ENTRIES_MAX = 1024;
/** Longest text whose result is kept, in characters: longer ones seldom repeat. */
const TEXT_MAX = 256;

/** Makes a function that keeps the results of `compute`, the oldest of which is dropped first. */
export function memoize<T>(compute: (text: string) => T): (text: string) => T {
  const results = new Map<string, T>();
  return (text) => {
    const known = results.get(text);
    if (known !== undefined || results.has(text)) return known as T;
    const result = compute(text);
    if (text.length > TEXT_MAX) return result;
    if (results.size === ENTRIES_MAX) results.delete(results.keys().next().value!);
    results.set(text, result);
    return result;
  };
}
