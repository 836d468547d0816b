/** Lines of a byte stream, as MCP's stdio transport has them. */

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/**
 * The lines of a source, without their ends. A line over `limit` bytes comes as undefined, and what it holds is let go
 * of as it is read; what follows the last newline is a line too.
 */
export async function* lines(source: ByteSource, limit: number): AsyncGenerator<Uint8Array | undefined> {
  const chunk = new Uint8Array(CHUNK);
  let parts: Uint8Array[] = [];
  let size = 0;
  const take = (part: Uint8Array) => {
    size += part.length;
    if (size > limit) parts = [];
    else if (part.length > 0) parts.push(part.slice());
  };
  const line = () => {
    const whole = size > limit ? undefined : joined(parts, size);
    parts = [];
    size = 0;
    return whole;
  };
  for (let read = await source.read(chunk); read !== null; read = await source.read(chunk)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && end < read; end = chunk.indexOf(NEWLINE, start)) {
      take(chunk.subarray(start, end));
      start = end + 1;
      yield line();
    }
    take(chunk.subarray(start, read));
  }
  if (size > 0) yield line();
}

function joined(parts: Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(size);
  for (let at = 0, i = 0; i < parts.length; at += parts[i++].length) whole.set(parts[i], at);
  return whole;
}
