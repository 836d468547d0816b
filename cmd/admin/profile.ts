import { brief, formatJson, note, print } from "../../lib/base/print/mod.ts";
import { type Command, type CommandGroup, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { requireCompatible, validateProfile } from "../../lib/config/profile/mod.ts";

/** `sbx-admin profile validate`: exits with 1 when the profile is invalid or needs a newer sbx. */
const profileValidate: Command = {
  name: "profile validate",
  usage: "PROFILE_FILE [--json]",
  summary:
    "check a profile.toml with the rule files and packs that it names; its folder's name must be its id",
  notes: ["The exit code is 1 if the profile is invalid or needs a newer sbx."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin profile validate mine/profile.toml"],
  async run(args) {
    const [path] = args.words;
    const report = await check(path);
    if (args.has("json")) await print(formatJson(report));
    else if (report.ok) await print(`${path} is valid: profile ${report.id} ${report.revision}`);
    else note(brief(report.problems.join("\n")));
    return report.ok ? 0 : 1;
  },
};

interface Report {
  schema: "sbx.profile-validation.v1";
  ok: boolean;
  path: string;
  id?: string;
  revision?: string;
  /** messages, each beginning with `file:line` */
  problems: string[];
}

async function check(path: string): Promise<Report> {
  const schema = "sbx.profile-validation.v1";
  try {
    const profile = await validateProfile(path);
    requireCompatible(profile);
    const { profileProblems } = await import("../../lib/home/mod.ts");
    const problems = await profileProblems(profile);
    return { schema, ok: problems.length === 0, path, id: profile.id, revision: profile.revision, problems };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { schema, ok: false, path, problems: error.message.split("\n") };
  }
}

export const group: CommandGroup = {
  name: "profile",
  summary: "validate profiles",
  subcommands: [profileValidate],
};
