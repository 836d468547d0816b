import { digestText } from "./digest.ts";

/** Hash of a row of the journal. */
export function journalLink(kind: string, id: string, hash: string, previous: string): string {
  return digestText(`${kind}\n${id}\n${hash}`, previous);
}
