/**
 * Replaces control characters, which separate rows and columns, and lone surrogates, which no database takes.
 */
export function clean(text: string): string {
  // deno-lint-ignore no-control-regex
  const plain = /[\x00-\x1f]/.test(text) ? text.replaceAll(/[\x00-\x1f]/g, " ") : text;
  if (!/\\u[dD][89a-fA-F]/.test(plain)) return plain;
  try {
    return JSON.stringify(
      JSON.parse(plain),
      (_, value) => typeof value === "string" ? value.toWellFormed() : value,
    );
  } catch {
    return plain;
  }
}
