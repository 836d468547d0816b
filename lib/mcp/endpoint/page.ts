/** Lists in pages that fit a frame, with cursors as MCP has them. */
import { PAGE_BYTES } from "./limit.ts";
import { type Params, RPC, RpcError } from "./rpc.ts";

/** A part of a list. */
export interface Page {
  items: Params[];
  nextCursor?: string;
  /** items of this part that are too large for any page, and are left out */
  omitted: Params[];
}

const encoder = new TextEncoder();
const scratch = new Uint8Array(PAGE_BYTES);

/**
 * The page at `cursor`. A list that changes between two pages is announced, and asked for again from its start.
 *
 * @param kind of the list: a cursor of another one is refused
 * @param itemOf an entry as the guest is shown it; only those of the page are made
 * @throws RpcError −32602 for a cursor that is none of ours
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
    const size = sizeOf(item) + 1;
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
  const [, of, at] = typeof cursor === "string" ? /^(\w+):(\d{1,9})$/.exec(decoded(cursor)) ?? [] : [];
  if (of === kind) return Number(at);
  throw new RpcError(RPC.params, "params.cursor is not one that this list gave");
}

function decoded(cursor: string): string {
  try {
    return cursor.length > 64 ? "" : atob(cursor);
  } catch {
    return "";
  }
}

/** Bytes of the JSON of a value; infinite when they are more than a page, or when it is nested too deep for JSON. */
function sizeOf(value: unknown): number {
  try {
    const text = JSON.stringify(value);
    const { read, written } = encoder.encodeInto(text, scratch);
    return read < text.length ? Infinity : written;
  } catch {
    return Infinity;
  }
}
