/** Asks that a person sees, in their places: nothing that a guest does puts another ask under the hand. */
import { READ_MS } from "../../../../lib/policy/ask/mod.ts";

/** The cards on the page. */
export interface Shown {
  /** asks with a card, in the order of the page */
  ids: readonly string[];
  /** ask that the keys answer */
  chosen?: string;
  /** `ms`: the last time a card came, moved or was chosen */
  since: number;
}

export const NOTHING: Shown = { ids: [], since: 0 };

/** The cards after asks have come or are over: new asks wait, except on an empty page. */
export function present(shown: Shown, pending: readonly string[], now: number): Shown {
  const left = shown.ids.filter((id) => pending.includes(id));
  return arrange(shown, left.length > 0 ? left : pending, now);
}

/** The cards, with the waiting ones on top. */
export function reveal(shown: Shown, pending: readonly string[], now: number): Shown {
  return arrange(shown, pending, now);
}

/** The cards with another one chosen; unknown ids choose none. */
export function choose(shown: Shown, id: string | undefined, now: number): Shown {
  if (id === undefined || id === shown.chosen || !shown.ids.includes(id)) return shown;
  return { ...shown, chosen: id, since: now };
}

/** The id at a distance from the chosen one. */
export function neighbour({ ids, chosen }: Shown, by: number): string | undefined {
  const at = ids.indexOf(chosen ?? "") + by;
  return ids[Math.min(Math.max(at, 0), ids.length - 1)];
}

/** Asks that wait behind the bar. */
export function hidden({ ids }: Shown, pending: readonly string[]): number {
  return pending.filter((id) => !ids.includes(id)).length;
}

/** Tests whether the person has had the time to read the card now in this place. */
export function mayAnswer({ ids, since }: Shown, id: string, now: number): boolean {
  return ids.includes(id) && now - since >= READ_MS;
}

function arrange(shown: Shown, ids: readonly string[], now: number): Shown {
  const { chosen } = shown;
  const isThere = chosen !== undefined && ids.includes(chosen);
  if (isThere && ids.length === shown.ids.length && ids.every((id, at) => id === shown.ids[at])) return shown;
  if (ids.length === 0 && shown.ids.length === 0) return shown;
  const place = Math.max(0, shown.ids.indexOf(chosen ?? ""));
  return { ids, chosen: isThere ? chosen : ids[Math.min(place, ids.length - 1)], since: now };
}
