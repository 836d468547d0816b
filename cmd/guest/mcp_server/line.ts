/** Lines of a byte stream, as in MCP's stdio transport. */

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/**
 * Reads the lines of a source, without line endings. A line over `limit` `bytes` yields `undefined` and is
 * not buffered; text after the last newline is a line too.
 */
export async function* readLines(source: ByteSource, limit: number): AsyncGenerator<Uint8Array | undefined> {
  const chunk = new Uint8Array(CHUNK);
  let parts: Uint8Array[] = [];
  let size = 0;
  const append = (part: Uint8Array) => {
    size += part.length;
    if (size > limit) parts = [];
    else if (part.length > 0) parts.push(part.slice());
  };
  const finish = () => {
    const line = size > limit ? undefined : concat(parts, size);
    parts = [];
    size = 0;
    return line;
  };
  for (let read = await source.read(chunk); read !== null; read = await source.read(chunk)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && end < read; end = chunk.indexOf(NEWLINE, start)) {
      append(chunk.subarray(start, end));
      start = end + 1;
      yield finish();
    }
    append(chunk.subarray(start, read));
  }
  if (size > 0) yield finish();
}

function concat(parts: Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(size);
  for (let at = 0, i = 0; i < parts.length; at += parts[i++].length) whole.set(parts[i], at);
  return whole;
}
