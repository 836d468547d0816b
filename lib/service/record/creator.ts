import type { SessionEntry } from "../../ledger/read/mod.ts";
import type { Maker } from "../../ledger/sink/mod.ts";

/** User, device and client of a session; undefined for one of an older sbx, and for one that is not in the index. */
export function makerOf(entry: SessionEntry | undefined): Maker | undefined {
  const { user, device, client } = entry ?? {};
  return user === undefined || device === undefined || client === undefined
    ? undefined
    : { user, device, client };
}
