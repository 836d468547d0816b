/** A person's selection of a VM's work: whole files, and pieces of files. */
import type { WorkTake, WorkView } from "../../../../../lib/client/api/schema.ts";

/** By the places of unit and file: everything, or the places of pieces. */
export type Chosen = ReadonlyMap<string, "all" | ReadonlySet<number>>;

export const keyOf = (unit: number, file: number) => `${unit} ${file}`;

/** Chooses a whole file, or no part of it. */
export function withFile(chosen: Chosen, key: string, isChosen: boolean): Chosen {
  const changed = new Map(chosen);
  if (isChosen) changed.set(key, "all");
  else changed.delete(key);
  return changed;
}

/** Chooses a piece of a file, or leaves it out. @param count pieces of the file */
export function withPiece(chosen: Chosen, key: string, piece: number, count: number): Chosen {
  const before = chosen.get(key);
  const pieces = new Set(before === "all" ? Array(count).keys() : before);
  if (!pieces.delete(piece)) pieces.add(piece);
  if (pieces.size === 0) return withFile(chosen, key, false);
  return new Map(chosen).set(key, pieces.size === count ? "all" : pieces);
}

/**
 * Chooses every file.
 * @param isFlaggedToo false: without files that programs of this machine run by themselves
 */
export function allFiles({ units }: WorkView, isFlaggedToo: boolean): Chosen {
  return new Map(
    units.flatMap(({ files }, unit) =>
      files.flatMap(({ notable }, file) =>
        isFlaggedToo || !notable ? [[keyOf(unit, file), "all"] as const] : []
      )
    ),
  );
}

/** Paths of the selection that programs of this machine run by themselves. */
export function flaggedOf(chosen: Chosen, { units }: WorkView): string[] {
  return [...chosen.keys()].flatMap((key) => {
    const [unit, file] = key.split(" ").map(Number);
    const { notable, path } = units[unit].files[file];
    return notable ? [path] : [];
  });
}

/** Number of chosen pieces; a file that is taken whole is one. */
export function countOf(chosen: Chosen, { units }: WorkView): number {
  let count = 0;
  for (const [key, pieces] of chosen) {
    const [unit, file] = key.split(" ").map(Number);
    count += pieces === "all" ? Math.max(1, units[unit].files[file].hunks.length) : pieces.size;
  }
  return count;
}

/** The request that takes the selection. */
export function takeOf(chosen: Chosen, { units }: WorkView): WorkTake {
  return {
    units: units.flatMap(({ repository, path, tree }, unit) => {
      const files = [...chosen].filter(([key]) => key.startsWith(`${unit} `)).map(([key, pieces]) => ({
        file: Number(key.split(" ")[1]),
        ...pieces !== "all" && { hunks: [...pieces].sort((a, b) => a - b) },
      }));
      return files.length > 0 ? [{ repository, path, tree, files }] : [];
    }),
  };
}
