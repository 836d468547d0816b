import type { Command } from "../../../lib/base/args/mod.ts";
import { note, print } from "../../../lib/base/print/mod.ts";
import { changesOf, patchOf, pullAccepted, requireRepository } from "../../../lib/repo/mod.ts";
import { connect } from "../connect.ts";
import { formatNotable, formatStat, patchText } from "./diff_text.ts";
import { collectWork, formatPulled, isLive } from "./repository.ts";
import { reviewWork } from "./review_walk.ts";

export const command: Command = {
  name: "review",
  usage: "NAME [--branch B]",
  summary: "take a VM's changes piece by piece",
  notes: [
    "What was accepted becomes one commit on the state that went in, on the branch sbx/NAME; in a folder without a repository, its files. Without a terminal the changes are printed and nothing is taken.",
  ],
  options: [{ name: "branch", value: "B", about: "name of the branch; default sbx/NAME" }],
  words: { min: 1, max: 1 },
  completesNames: true,
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
      for (const unit of work.units) await print(patchText(await patchOf(unit)));
      note(`sbx: nothing was taken: sbx review needs a terminal; sbx pull ${name} PATH… takes files`);
      return 1;
    }
    const { accepted, pieces } = await reviewWork(work, (question) => prompt(question) ?? undefined);
    if (pieces.accepted === 0) {
      await print("nothing was accepted, and nothing was taken");
      return 0;
    }
    if (!/^y/i.test(prompt(`take ${pieces.accepted} of ${pieces.all} pieces? [y/N]`) ?? "")) return 0;
    const pulled = await pullAccepted(work, accepted, { branch });
    await print(formatPulled(pulled, await isLive(client, name)));
    return pulled.folder && pulled.folder.conflicts.length > 0 ? 1 : 0;
  },
};
