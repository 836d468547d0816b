import { SbxError } from "../../lib/base/error/mod.ts";
import { requireCompatible, validateProfile } from "../../lib/profile/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

/** `sbx-admin profile validate`: exit 1 when the file is no profile, or is one for a newer sbx. */
export const profileValidate: Command = {
  name: "profile validate",
  synopsis: "<profile_toml> [--json]",
  summary: "check a profile.toml; its folder's name must be its id",
  async run(args) {
    const { switches, positionals: [path] } = parseArguments(args, {
      values: [],
      switches: ["json"],
      positionals: ["<profile_toml>"],
    });
    const report = await check(path);
    if (switches.has("json")) console.log(JSON.stringify(report));
    else if (report.ok) console.log(`${path} is right: profile ${report.id} ${report.revision}`);
    else console.error(report.problems.join("\n"));
    return report.ok ? 0 : 1;
  },
};

interface Report {
  schema: "sbx.profile-validation.v1";
  ok: boolean;
  path: string;
  id?: string;
  revision?: string;
  /** one message each, beginning with `file:line` */
  problems: string[];
}

async function check(path: string): Promise<Report> {
  const schema = "sbx.profile-validation.v1";
  try {
    const profile = await validateProfile(path);
    requireCompatible(profile);
    return { schema, ok: true, path, id: profile.id, revision: profile.revision, problems: [] };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { schema, ok: false, path, problems: error.message.split("\n") };
  }
}
