/** Lists in pages that fit a frame, with cursors as MCP has them. */
import { PAGE_BYTES } from "./limit.ts";
import { RPC, RpcError } from "./rpc.ts";

/** A part of a list. */
export interface Page<T> {
  items: T[];
  nextCursor?: string;
  /** items of this part that are too large for any page, and are left out */
  omitted: T[];
}

const encoder = new TextEncoder();

/**
 * The page at `cursor`. A list that changes between two pages is announced, and asked for again from its start.
 *
 * @param kind of the list: a cursor of another one is refused
 * @throws RpcError −32602 for a cursor that is none of ours
 */
export function pageOf<T>(all: readonly T[], kind: string, cursor: unknown, limit = PAGE_BYTES): Page<T> {
  const page: Page<T> = { items: [], omitted: [] };
  let bytes = 0;
  for (let at = startOf(kind, cursor); at < all.length; at++) {
    const size = sizeOf(all[at]) + 1;
    if (size > limit) page.omitted.push(all[at]);
    else if (bytes + size > limit) return { ...page, nextCursor: btoa(`${kind}:${at}`) };
    else {
      page.items.push(all[at]);
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

/** Bytes of the JSON of a value; what a server has nested too deep for JSON fits nowhere. */
function sizeOf(value: unknown): number {
  try {
    return encoder.encode(JSON.stringify(value)).length;
  } catch {
    return Infinity;
  }
}
