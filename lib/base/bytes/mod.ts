/** Arrays of bytes, and files as pieces of them. */

/** One array with the bytes of all parts; a single part is returned as it is, no copy. */
export function joinBytes<T extends ArrayBufferLike>(
  parts: readonly Uint8Array<T>[],
): Uint8Array<T | ArrayBuffer> {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(parts.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A file from its beginning to its end, as pieces of at most `size` bytes, none of which is used again. */
export async function* readPieces(path: string, size: number): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using file = await Deno.open(path);
  for (let piece = new Uint8Array(size);; piece = new Uint8Array(size)) {
    const read = await file.read(piece);
    if (read === null) return;
    yield piece.subarray(0, read);
  }
}
