/** Lines of a diff with their numbers, as pages show them. */

/** One line of a diff. */
export interface DiffLine {
  kind: "same" | "plus" | "minus" | "place";
  /** its number before and after the change; absent where it is not */
  before?: number;
  after?: number;
  /** without the sign of the diff */
  text: string;
}

const PLACE = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;
const KINDS: Record<string, DiffLine["kind"]> = { "+": "plus", "-": "minus", " ": "same" };

/** Numbers the lines of one piece, or of the diff of a whole file, whose head is left out. */
export function numbered(lines: readonly string[]): DiffLine[] {
  const found: DiffLine[] = [];
  let at: { before: number; after: number } | undefined;
  for (const line of lines) {
    const place = PLACE.exec(line);
    if (place) {
      at = { before: Number(place[1]), after: Number(place[2]) };
      found.push({ kind: "place", text: line });
      continue;
    }
    const kind = KINDS[line[0]];
    // The head of a diff names the file again; the last line of a text is the end of its diff.
    if (at === undefined) continue;
    if (kind === undefined) {
      if (line !== "") found.push({ kind: "place", text: line });
      continue;
    }
    found.push({
      kind,
      ...kind !== "plus" && { before: at.before++ },
      ...kind !== "minus" && { after: at.after++ },
      text: line.slice(1),
    });
  }
  // A binary file, a link, a mode: all of it is the head.
  return at === undefined
    ? lines.filter((line) => line !== "").map((line) => ({ kind: "place", text: line }))
    : found;
}
