import { stringify } from "smol-toml";

/** Value that an edit can write. */
export type TomlValue = string | number | boolean | TomlValue[] | { [key: string]: TomlValue };

/**
 * Encodes a value as TOML.
 *
 * @param multiline writes text with line breaks as a multi-line string, readable and editable by people; not for files
 * with CRLF line ends, which would become part of the text
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

/** Encodes a key, quoted where necessary. */
export function encodeKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : basicString(key);
}

/** JSON escapes are valid TOML; DEL is the one control character JSON leaves unescaped. */
function basicString(text: string): string {
  return JSON.stringify(text).replaceAll("\x7f", "\\u007f");
}

function multilineString(text: string): string {
  const lines = text.split("\n").map((line) =>
    basicString(line).slice(1, -1).replaceAll('\\"', '"').replaceAll('"""', '""\\"')
  );
  // A quote at the very end would merge with the closing quotes.
  return `"""\n${lines.join("\n").replace(/"$/, '\\"')}"""`;
}

/** Writes a whole document, with a header for each table. Comments of a document that was read are lost. */
export function stringifyToml(value: Record<string, unknown>): string {
  return stringify(value).replaceAll("\x7f", "\\u007f");
}
