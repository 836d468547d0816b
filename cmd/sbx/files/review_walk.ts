/** A walk through the changes of a VM, with a question for each piece. */
import { plain, print } from "../../../lib/base/print/mod.ts";
import {
  type Accepted,
  changesOf,
  type Entry,
  entryOf,
  type FileChange,
  type Hunk,
  hunksOf,
  patchOfFile,
  shown,
  textOf,
  type UnitWork,
  type Work,
} from "../../../lib/repo/mod.ts";
import { fullPath } from "./diff_text.ts";

/** Answers, by their letter. */
const ANSWERS = {
  y: "accept this",
  n: "reject this",
  a: "accept this and the rest of the file",
  d: "reject this and the rest of the file",
  q: "quit: reject everything from here on",
};
type Answer = keyof typeof ANSWERS;

/** Lines to show of a file that is taken whole. */
const WHOLE_LINES = 200;

/** Asks a question. @returns the typed line; undefined at the end of the input */
export type Ask = (question: string) => string | undefined;

/** The pieces that a person accepted, with their count and the count of all. */
export interface Reviewed {
  accepted: Accepted;
  pieces: { accepted: number; all: number };
}

/** Shows every change and asks about it. */
export async function reviewWork(work: Work, ask: Ask): Promise<Reviewed> {
  const accepted = new Map<string, Entry[]>();
  const pieces = { accepted: 0, all: 0 };
  for (const unit of work.units) {
    const entries: Entry[] = [];
    accepted.set(unit.unit.path, entries);
    const changes = await changesOf(unit);
    for (const [at, change] of changes.files.entries()) {
      await print(
        `\n── ${shown(fullPath(changes, change.path))}: ${change.status} (${
          at + 1
        } of ${changes.files.length})`,
      );
      const hunks = await hunksOf(unit, change);
      const shownPieces = hunks.length > 0 ? hunks.map(textOfHunk) : [await textOfWhole(unit, change)];
      const { taken, isEnd } = await askAbout(shownPieces, ask);
      pieces.all += shownPieces.length;
      pieces.accepted += taken.length;
      if (taken.length === shownPieces.length) entries.push(await entryOf(unit, change, "all"));
      else if (taken.length > 0) {
        entries.push(await entryOf(unit, change, taken.map((index) => hunks[index])));
      }
      if (isEnd) return { accepted, pieces };
    }
  }
  return { accepted, pieces };
}

/** Asks about the pieces of one file. @returns the numbers of the accepted ones */
async function askAbout(pieces: string[], ask: Ask): Promise<{ taken: number[]; isEnd: boolean }> {
  const taken: number[] = [];
  for (const [at, piece] of pieces.entries()) {
    await print(plain(piece, true));
    const answer = await answerTo(`accept ${at + 1} of ${pieces.length}? [y,n,a,d,q,?]`, ask);
    if (answer === "q") return { taken, isEnd: true };
    if (answer === "y") taken.push(at);
    if (answer === "a") taken.push(...pieces.keys().drop(at));
    if (answer === "a" || answer === "d") break;
  }
  return { taken, isEnd: false };
}

async function answerTo(question: string, ask: Ask): Promise<Answer> {
  while (true) {
    const line = ask(question);
    const letter = line === undefined ? "q" : line.trim().toLowerCase()[0] ?? "?";
    if (letter in ANSWERS) return letter as Answer;
    await print(Object.entries(ANSWERS).map(([key, what]) => `${key}: ${what}`).join("\n"));
  }
}

const textOfHunk = ({ lines }: Hunk) => textOf(lines.join("\n"));

async function textOfWhole(unit: UnitWork, change: FileChange): Promise<string> {
  const patch = await patchOfFile(unit, change);
  if (patch === "") return "its name is not UTF-8: sbx diff shows what it holds";
  const lines = textOf(patch).trimEnd().split("\n");
  const rest = lines.length - WHOLE_LINES;
  return [...lines.slice(0, WHOLE_LINES), ...rest > 0 ? [`… ${rest} more lines (sbx diff shows all)`] : []]
    .join("\n");
}
