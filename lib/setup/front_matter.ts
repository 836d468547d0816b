/** Heads of texts of Markdown, as lenient readers take them: a key there may run a program. */

/** Beginning of a head, and its end; without one, the whole text may be read as the head. */
const BEGINS = /^\ufeff?\s*---[^\S\n]*\n/, ENDS = /^---/m;

/** The first of these keys that the head of a text has, in any notation of YAML. */
export async function runningKey(text: string, keys: readonly string[]): Promise<string | undefined> {
  const begin = BEGINS.exec(text)?.[0];
  if (begin === undefined) return undefined;
  const rest = text.slice(begin.length);
  const end = ENDS.exec(rest)?.index;
  const head = end === undefined ? rest : rest.slice(0, end);
  return keys.find((key) => isWritten(head, key)) ?? await parsedKey(head, keys);
}

/** A key as it is mostly written, also in a head that is no YAML: agents read such heads line by line. */
function isWritten(head: string, key: string): boolean {
  return new RegExp(`(?:^\\s*\\??|[{,])\\s*["']?${RegExp.escape(key)}["']?\\s*(?::|$)`, "m").test(head);
}

/** A key with escapes or tags, or one that is merged in. */
async function parsedKey(head: string, keys: readonly string[]): Promise<string | undefined> {
  try {
    const value = (await import("js-yaml")).load(head);
    return typeof value === "object" && value !== null
      ? keys.find((key) => Object.hasOwn(value, key))
      : undefined;
  } catch {
    return undefined;
  }
}
