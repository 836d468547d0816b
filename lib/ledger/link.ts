import { Blake3Hasher } from "@napi-rs/blake-hash";

/** Hash of a row of the journal. */
export function journalLink(kind: string, id: string, hash: string, previous: string): string {
  return digestText(`${kind}\n${id}\n${hash}`, previous);
}

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
