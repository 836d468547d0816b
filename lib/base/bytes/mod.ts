/** Arrays of bytes. */

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
