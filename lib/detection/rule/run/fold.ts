const [CAPITAL_A, CAPITAL_Z, ASCII_MAX] = [0x41, 0x5a, 0x7f];

/**
 * Folds case. Each part of a text folds as it does alone, so that a folded text has the folded literals that the text
 * has: a final sigma would be another letter.
 */
export function fold(text: string): string {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code > ASCII_MAX || code >= CAPITAL_A && code <= CAPITAL_Z) {
      return text.toLowerCase().replaceAll("ς", "σ");
    }
  }
  // Most texts of events have neither: they need no copy.
  return text;
}

/** Text of a scalar, as patterns see it; `undefined` for anything else. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
