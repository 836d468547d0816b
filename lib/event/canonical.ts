/**
 * Canonical JSON: compact, keys of every object sorted by UTF-16 code units, absent (`undefined`) fields left
 * out. For what JSON can hold this is RFC 8785: V8 prints numbers and strings as it asks.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) {
    let text = "[";
    for (let at = 0; at < value.length; at++) text += (at ? "," : "") + canonicalJson(value[at]);
    return text + "]";
  }
  const object = value as Record<string, unknown>;
  let text = "{";
  for (const key of Object.keys(object).sort()) {
    const field = object[key];
    if (field === undefined) continue;
    text += (text.length > 1 ? "," : "") + JSON.stringify(key) + ":" + canonicalJson(field);
  }
  return text + "}";
}
