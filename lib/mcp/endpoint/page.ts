/** Pages of lists that fit a frame, with MCP cursors. */
import { PAGE_BYTES } from "./limit.ts";
import { type Params, RPC, RpcError } from "./rpc.ts";

/** One page of a list. */
export interface Page {
  items: Params[];
  nextCursor?: string;
  /** omitted items, too large for any page */
  omitted: Params[];
}

const encoder = new TextEncoder();
const scratch = new Uint8Array(PAGE_BYTES);

/**
 * Returns the page at `cursor`. A list that changes between two pages is announced, and listed again from its start.
 *
 * @param kind list that the cursor has to belong to
 * @param itemOf converts an entry for the guest; called for entries of the page only
 * @throws RpcError −32602: invalid cursor
 */
export function pageOf<T>(
  all: readonly T[],
  kind: string,
  cursor: unknown,
  itemOf: (entry: T) => Params,
): Page {
  const page: Page = { items: [], omitted: [] };
  let bytes = 0;
  for (let at = startOf(kind, cursor); at < all.length; at++) {
    const item = itemOf(all[at]);
    const size = measure(item) + 1;
    if (size > PAGE_BYTES) page.omitted.push(item);
    else if (bytes + size > PAGE_BYTES) return { ...page, nextCursor: btoa(`${kind}:${at}`) };
    else {
      page.items.push(item);
      bytes += size;
    }
  }
  return page;
}

function startOf(kind: string, cursor: unknown): number {
  if (cursor === undefined) return 0;
  const [, list, at] = typeof cursor === "string" ? /^(\w+):(\d{1,9})$/.exec(decode(cursor)) ?? [] : [];
  if (list === kind) return Number(at);
  throw new RpcError(RPC.params, "params.cursor was not issued by this list");
}

function decode(cursor: string): string {
  try {
    return cursor.length > 64 ? "" : atob(cursor);
  } catch {
    return "";
  }
}

/** Length of a value's JSON in `bytes`; infinite when it exceeds a page or is nested too deep for JSON. */
function measure(value: unknown): number {
  try {
    const text = JSON.stringify(value);
    const { read, written } = encoder.encodeInto(text, scratch);
    return read < text.length ? Infinity : written;
  } catch {
    return Infinity;
  }
}
