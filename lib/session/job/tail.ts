import type { Piece } from "./output_reader.ts";

const NEWLINE = "\n".charCodeAt(0);

/** The last lines of output; one that has not ended counts. */
export function lastLines(pieces: Piece[], count: number): Piece[] {
  if (count === 0) return [];
  const kept: Piece[] = [];
  let lines = 0;
  // The newline at the end ends the last line and begins none.
  let isEnd = true;
  for (const piece of pieces.toReversed()) {
    for (let at = piece.bytes.length - 1; at >= 0; at--) {
      const isBegun = piece.bytes[at] === NEWLINE && !isEnd && ++lines === count;
      isEnd = false;
      if (!isBegun) continue;
      const rest = piece.bytes.subarray(at + 1);
      if (rest.length > 0) kept.push({ ...piece, bytes: rest, missing: 0 });
      return kept.reverse();
    }
    kept.push(piece);
  }
  return kept.reverse();
}
