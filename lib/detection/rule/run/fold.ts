/**
 * Folds case. Each part of a text folds as it does alone, so that a folded text has the folded literals that
 * the text has: a final sigma would be another letter.
 */
export function fold(text: string): string {
  return text.toLowerCase().replaceAll("ς", "σ");
}

/** Text of a scalar, as patterns see it; `undefined` for anything else. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
