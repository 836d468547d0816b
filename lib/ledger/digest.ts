import { Blake3Hasher } from "@napi-rs/blake-hash";

/** Shared by all calls: creating a hasher costs more than hashing an event. */
const hasher = new Blake3Hasher();

/** BLAKE3 of `text` followed by `suffix`, as 64 lower-case hex characters. */
export function digestText(text: string, suffix = ""): string {
  hasher.reset();
  // Two updates instead of one joined text: hashing flattens `text`, which is then written as it is.
  hasher.update(text);
  if (suffix) hasher.update(suffix);
  return hasher.digest("hex");
}
