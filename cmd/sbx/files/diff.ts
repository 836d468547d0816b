import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { changesOf, noteUntaken, patchOf } from "../../../lib/repo/mod.ts";
import { connect } from "../connect.ts";
import { formatNotable, formatStat, jsonOf, labelled, patchText } from "./diff_text.ts";
import { collectWork } from "./repository.ts";

export const command: Command = {
  name: "diff",
  usage: "NAME [--stat] [--json]",
  summary: "show a VM's changes to the files brought in",
  notes: [
    "Shows commits and uncommitted work together, against the state that went in. sbx pull takes them.",
  ],
  options: [
    { name: "stat", about: "print the files and how many lines changed" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx diff demo", "sbx diff demo --stat"],
  async run(args) {
    await using work = await collectWork(await connect(), args.words[0]);
    const units = await Promise.all(work.units.map(changesOf));
    await noteUntaken(work);
    const wantsPatch = !args.has("stat");
    const patches = wantsPatch ? await Promise.all(work.units.map((unit) => patchOf(unit))) : [];
    if (args.has("json")) {
      await printJson({ units: units.map((unit, at) => jsonOf(unit, patches[at])) });
      return 0;
    }
    if (!wantsPatch) await print(formatStat(units));
    else if (patches.some((patch) => patch !== "")) {
      await print(
        patches.map((patch, at) => labelled(units[at], patchText(patch))).join("").replace(/\n$/, ""),
      );
    }
    for (const line of formatNotable(units)) note(line);
    return 0;
  },
};
