import { type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { writeRepository } from "../../../lib/publish/package/mod.ts";
import { PROGRAM } from "../program.ts";

/** Time after which apt refuses an index, in days. */
const VALID_DAYS = 30, VALID_DAYS_MAX = 365;

/** `sbx-admin package repository`: an apt repository for any web server. */
export const packageRepository: Command = {
  name: "package repository",
  usage: "DIR [DEB…] --key FILE [OPTIONS]",
  summary: "add packages to an apt repository, and sign its index again",
  notes: ["Run it again without packages before the index expires."],
  options: [
    { name: "key", value: "FILE", about: "secret OpenPGP key, as gpg --export-secret-keys writes it" },
    {
      name: "old-key",
      value: "FILE",
      about: "public key that signed the index, where FILE of --key replaces it",
    },
    { name: "suite", value: "NAME", about: "suite that the packages are added to; default stable" },
    {
      name: "origin",
      value: "NAME",
      about: "who publishes it, in one word; default the repository's, or sbx",
    },
    { name: "valid-days", value: "N", about: `days until apt refuses the index; default ${VALID_DAYS}` },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1000 },
  examples: ["sbx-admin package repository apt dist/sbx_1.0.0_amd64.deb --key archive.key"],
  async run(args) {
    const [out, ...debs] = args.words;
    const key = args.text("key");
    const [suite, origin] = [args.text("suite") ?? "stable", args.text("origin")];
    const usage = (problem: string) => usageError({ program: PROGRAM, command: packageRepository }, problem);
    if (key === undefined) throw usage("missing option --key");
    for (const word of [suite, origin]) {
      if (word !== undefined && !/^[a-z0-9][a-z0-9.-]*$/.test(word)) {
        throw usage(`"${word}" is not a name of a suite or origin`);
      }
    }
    const validDays = args.number("valid-days", { min: 1, max: VALID_DAYS_MAX }) ?? VALID_DAYS;
    const oldKey = args.text("old-key");
    const written = await writeRepository({ debs, out, key, oldKey, suite, origin, validDays });
    if (args.has("json")) await printJson(written);
    else {
      await print(
        `${out}: ${count(written.packages, "package")} in ${suite}, valid until ${written.valid_until}`,
      );
      await print(`  signed by ${written.signed_by}; its key for clients is ${written.keyring}`);
    }
    return 0;
  },
};
