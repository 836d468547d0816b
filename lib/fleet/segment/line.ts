/**
 * Rows of a segment, one a line, with tabs between their parts; JSON has neither tabs nor line ends.
 *
 * `e hash event record` an event, `o hash outcome` an end of one, `j hash kind id text` a finding, an answer or a statement.
 * `E` and `O` are rows whose bodies stayed on the machine: their hash is that of the whole text.
 */

/** A row, as it was sent. */
export type Line =
  | { kind: "event"; hash: string; text: string; record: string | null; whole: boolean }
  | { kind: "outcome"; hash: string; text: string; whole: boolean }
  | { kind: "journal"; hash: string; of: string; id: string; text: string | null };

/** Spells a row. */
export function formatLine(line: Line): string {
  if (line.kind === "journal") return `j\t${line.hash}\t${line.of}\t${line.id}\t${line.text ?? ""}`;
  if (line.kind === "outcome") return `${line.whole ? "o" : "O"}\t${line.hash}\t${line.text}`;
  return `${line.whole ? "e" : "E"}\t${line.hash}\t${line.text}\t${line.record ?? ""}`;
}

/** Parts of each kind of row. */
const PARTS: Record<string, number> = { e: 4, E: 4, o: 3, O: 3, j: 5 };

/** Parses a row. @returns `undefined`: it is none */
export function parseLine(text: string): Line | undefined {
  const parts = text.split("\t");
  const [letter, hash] = parts;
  if (PARTS[letter] !== parts.length || !/^[0-9a-f]{64}$/.test(hash)) return undefined;
  const whole = letter === "e" || letter === "o";
  switch (letter) {
    case "j":
      return { kind: "journal", hash, of: parts[2], id: parts[3], text: parts[4] || null };
    case "o":
    case "O":
      return { kind: "outcome", hash, text: parts[2], whole };
    default:
      return { kind: "event", hash, text: parts[2], record: parts[3] || null, whole };
  }
}
