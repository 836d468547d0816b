/** Lists of the members of a union of texts, which the compiler holds complete. */

/**
 * A list with every member of a union, in the given order: a list that lacks one does not compile.
 *
 * @example
 * ```ts
 * const DECISIONS = allOf<"allow" | "ask" | "block">()("allow", "ask", "block");
 * ```
 */
export function allOf<T extends string>() {
  return <const L extends readonly T[]>(...list: Exclude<T, L[number]> extends never ? L : never): L => list;
}
