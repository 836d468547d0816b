/** What an edit can write. */
export type TomlValue = string | number | boolean | TomlValue[] | { [key: string]: TomlValue };

/**
 * A value as TOML.
 *
 * @param multiline writes text of several lines as it reads, so that a person can go on editing it; not for files
 * whose lines end in CRLF, since those ends would become the text's
 */
export function encodeValue(value: TomlValue, multiline = true): string {
  if (typeof value === "string") {
    return multiline && value.includes("\n") ? multilineString(value) : basicString(value);
  }
  if (typeof value === "number") return Object.is(value, -0) ? "-0.0" : String(value);
  if (typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return `[${value.map((inner) => encodeValue(inner, multiline)).join(", ")}]`;
  const pairs = Object.entries(value).map(([key, inner]) =>
    `${encodeKey(key)} = ${encodeValue(inner, multiline)}`
  );
  return pairs.length ? `{ ${pairs.join(", ")} }` : "{}";
}

/** A key, quoted where it has to be. */
export function encodeKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : basicString(key);
}

/** JSON's escapes are TOML's too, but for the one control character that JSON leaves as it is. */
function basicString(text: string): string {
  return JSON.stringify(text).replaceAll("\x7f", "\\u007f");
}

function multilineString(text: string): string {
  const lines = text.split("\n").map((line) =>
    basicString(line).slice(1, -1).replaceAll('\\"', '"').replaceAll('"""', '""\\"')
  );
  // A quote at the very end would join the closing ones.
  return `"""\n${lines.join("\n").replace(/"$/, '\\"')}"""`;
}
