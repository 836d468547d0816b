/** Forms (`multipart/form-data`), as calls with audio or images are sent. */

/** Fields of a form without its files, or why receivers may read it differently. */
export type Form = { fields: Map<string, string>; fault?: undefined } | { fields?: undefined; fault: string };

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a form in its strict shape (RFC 7578).
 *
 * @param type content type with its boundary
 */
export function readForm(bytes: Uint8Array, type: string): Form {
  const boundary = /^multipart\/form-data\s*;\s*boundary=(?:"([^"\\]{1,70})"|([^\s";,]{1,70}))\s*$/i.exec(
    type,
  );
  if (!boundary) return { fault: "its form has no plain boundary" };
  const mark = `--${boundary[1] ?? boundary[2]}`;
  // One character a byte, so that files with any bytes stay whole.
  const text = `\r\n${new TextDecoder("latin1").decode(bytes)}`;
  const [before, ...parts] = text.split(`\r\n${mark}`);
  const end = parts.pop();
  if (before !== "" || end === undefined || !/^--(\r\n)?$/.test(end)) {
    return { fault: "its form does not begin and end with its boundary" };
  }
  const fields = new Map<string, string>();
  for (const part of parts) {
    const split = part.indexOf("\r\n\r\n");
    const headers = part.slice(2, split).split("\r\n");
    const disposition = headers.filter((line) => /^content-disposition:/i.test(line));
    const [, name, file] = /^content-disposition: *form-data; *name="([^"\\]*)"(; *filename="[^"\\]*")?$/i
      .exec(disposition.join()) ?? [];
    const isPlain = part.startsWith("\r\n") && split >= 0 &&
      headers.every((line) => /^content-(disposition|type|length):/i.test(line));
    if (name === undefined || !isPlain) return { fault: "its form has an unusual part" };
    if (fields.has(name) && !name.endsWith("[]")) {
      return { fault: `its form repeats the field ${JSON.stringify(name.slice(0, 40))}` };
    }
    fields.set(name, file === undefined ? part.slice(split + 4) : "");
  }
  try {
    return { fields: new Map(fields.entries().map(([name, value]) => [name, decode(value)])) };
  } catch {
    return { fault: "its form is not UTF-8" };
  }
}

function decode(value: string): string {
  return utf8.decode(Uint8Array.from(value, (char) => char.charCodeAt(0)));
}
