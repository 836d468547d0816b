import { Blake3Hasher } from "@napi-rs/blake-hash";

/** One hasher for all: making one costs more than hashing an event. */
const hasher = new Blake3Hasher();

/** BLAKE3 of texts one after the other, 64 lower-case hex characters. */
export function digestText(text: string, after = ""): string {
  hasher.reset();
  // Two updates, not one of a joined text: what is hashed is flat from then on, and is written as it is.
  hasher.update(text);
  if (after) hasher.update(after);
  return hasher.digest("hex");
}
