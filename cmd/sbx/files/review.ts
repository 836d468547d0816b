import type { Command } from "../../../lib/base/args/mod.ts";
import { note, plain, print } from "../../../lib/base/print/mod.ts";
import {
  type Accepted,
  changesOf,
  type Entry,
  entryOf,
  type FileChange,
  type Hunk,
  hunksOf,
  noteUntaken,
  patchOf,
  patchOfFile,
  pullAccepted,
  requireRepository,
  shown,
  textOf,
  type UnitWork,
  type Work,
} from "../../../lib/repo/mod.ts";
import { connect } from "../connect.ts";
import { formatNotable, formatStat, fullPath, labelled, patchText } from "./diff_text.ts";
import { collectWork, describePulled, keepState } from "./repository.ts";

export const command: Command = {
  name: "review",
  usage: "NAME [--branch B]",
  summary: "take a VM's changes piece by piece",
  notes: [
    "Accepted changes become one commit on the state that went in, on the branch sbx/NAME; in a folder without a repository, they are written to its files. Without a terminal the changes are printed and nothing is taken.",
  ],
  options: [{ name: "branch", value: "B", about: "name of the branch; default sbx/NAME" }],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx review demo", "sbx review demo --branch fix"],
  async run(args) {
    const [name] = args.words;
    const client = await connect();
    await using work = await collectWork(client, name);
    const branch = args.text("branch");
    if (branch !== undefined) requireRepository(work, "--branch");
    const units = await Promise.all(work.units.map(changesOf));
    await print(formatStat(units));
    for (const line of formatNotable(units)) note(line);
    if (units.every(({ files }) => files.length === 0)) return 0;
    if (!Deno.stdin.isTerminal() || !Deno.stdout.isTerminal()) {
      for (const unit of work.units) await print(labelled(unit, patchText(await patchOf(unit))));
      note(`sbx: nothing was taken: sbx review needs a terminal; sbx pull ${name} PATH… takes files`);
      return 1;
    }
    const { accepted, pieces } = await reviewWork(work, (question) => prompt(question) ?? undefined);
    if (pieces.accepted === 0) {
      await print("nothing was accepted, and nothing was taken");
      return 0;
    }
    if (!/^y/i.test(prompt(`take ${pieces.accepted} of ${pieces.all} pieces? [y/N]`) ?? "")) return 0;
    await keepState(client, name, "before sbx review takes work");
    const pulled = await pullAccepted(work, accepted, { branch });
    await noteUntaken(work);
    await print(await describePulled(pulled, work));
    return pulled.folder && pulled.folder.conflicts.length > 0 ? 1 : 0;
  },
};

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
type Ask = (question: string) => string | undefined;

/** The pieces that a person accepted, with their count and the count of all. */
interface Reviewed {
  accepted: Accepted;
  pieces: { accepted: number; all: number };
}

/** Shows every change and asks about it. */
export async function reviewWork(work: Work, ask: Ask): Promise<Reviewed> {
  const accepted = new Map<UnitWork, Entry[]>();
  const pieces = { accepted: 0, all: 0 };
  for (const unit of work.units) {
    const entries: Entry[] = [];
    accepted.set(unit, entries);
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
