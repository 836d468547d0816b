/** Lists as lines of the aggregator protocol. */
import { LINE_BYTES_MAX } from "../limit.ts";
import { fitLine } from "./answer.ts";
import type { EntryText } from "./catalogue.ts";

/** `bytes` of the entries of a page, which leaves room for the rest of its line. */
const PAGE_BYTES = LINE_BYTES_MAX - 256;

/** Answers with a whole list, or with one page and the next cursor when there is a cursor. */
export function listLine(
  id: number,
  field: string,
  entries: EntryText[],
  cursor: number | undefined,
): string {
  let at = cursor ?? 0;
  let bytes = 0;
  const first = at;
  while (at < entries.length && (at === first || bytes + entries[at].bytes < PAGE_BYTES)) {
    bytes += entries[at++].bytes + 1;
  }
  if (cursor === undefined && at < entries.length) {
    throw new Error(
      `the list of ${field} does not fit on one line; request pages, starting with "cursor": 0`,
    );
  }
  const texts = entries.slice(first, at).map(({ text }) => text).join(",");
  return fitLine(
    id,
    `{"id":${id},"${field}":[${texts}]${at < entries.length ? `,"next_cursor":${at}` : ""}}`,
  );
}
