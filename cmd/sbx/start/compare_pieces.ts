/** Pieces of the work of several VMs: shown with their numbers, and taken onto one branch. */
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import {
  changesOf,
  combine,
  noteUntaken,
  type Pick,
  piecesOf,
  pullAccepted,
  requireRepository,
  shown,
  shownId,
  textOf,
  type Work,
} from "../../../lib/repo/mod.ts";
import { fullPath } from "../files/diff_text.ts";
import { collectWork, describePulled, keepState } from "../files/repository.ts";

/** Shows the changes of each VM, with the numbers of their pieces. */
export async function showPieces(client: Client, names: readonly string[], isJson: boolean): Promise<number> {
  const vms = [];
  for (const name of names) {
    await using work = await collectWork(client, name);
    const files = [];
    for (const unit of work.units) {
      const changes = await changesOf(unit);
      for (const change of changes.files) {
        const pieces = (await piecesOf(unit, change)).map(({ start, lines: [, ...lines] }, at) => ({
          piece: at + 1,
          line: start + 1,
          lines: lines.map((line) => textOf(line)),
        }));
        files.push({
          path: shown(fullPath(changes, change.path)),
          status: change.status,
          id: shownId(change),
          pieces,
        });
      }
    }
    vms.push({ vm: name, files });
  }
  if (isJson) await printJson({ vms });
  else {
    for (const { vm, files } of vms) {
      for (const { path, status, id, pieces } of files) {
        const name = `${vm}:${plain(path)}`;
        if (pieces.length === 0) await print(`── ${name}@${id}  (${status}, taken whole)`);
        for (const { piece, line, lines } of pieces) {
          await print(`── ${name}:${piece}@${id}  (line ${line})\n${plain(lines.join("\n"), true)}`);
        }
      }
    }
    note("sbx compare VM VM… --pick VM:PATH:N@ID takes pieces onto one branch");
  }
  return 0;
}

/** Takes pieces of several VMs as one commit. @throws {SbxError} as {@linkcode combine} */
export async function pick(
  client: Client,
  names: readonly string[],
  picks: readonly Pick[],
  { branch, isJson }: { branch?: string; isJson: boolean },
): Promise<number> {
  // The first VM's repository gets the branch; only the ones that something is picked of are read.
  const wanted = names.filter((name) => picks.some(({ vm }) => vm === name));
  const works: Work[] = [];
  try {
    for (const name of wanted) works.push(await collectWork(client, name));
    if (branch !== undefined) requireRepository(works[0], "--branch");
    const { accepted, others } = await combine(works, picks);
    for (const name of wanted) await keepState(client, name, "before sbx compare takes work");
    const pulled = await pullAccepted(works[0], accepted, { branch, others });
    for (const work of works) await noteUntaken(work);
    await (isJson ? printJson(pulled) : print(await describePulled(pulled, works[0])));
    return pulled.folder && pulled.folder.conflicts.length > 0 ? 1 : 0;
  } finally {
    for (const work of works) await work[Symbol.asyncDispose]();
  }
}
