import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { initWorkspace } from "../../../lib/publish/mod.ts";

/** `sbx-admin release init`: a workspace with new keys. */
export const releaseInit: Command = {
  name: "release init",
  usage: "DIR [--json]",
  summary: "make a workspace for releases, with new keys",
  notes: ["Keep its folder keys secret and backed up: hosts trust nothing else."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin release init releases"],
  async run(args) {
    const made = await initWorkspace(args.words[0]);
    if (args.has("json")) await printJson(made);
    else {
      await print(`workspace    ${made.dir}`);
      await print(`signing key  ${made.signing_key_file} (secret), id ${made.key_id}`);
      await print(`HMAC key     ${made.hmac_key_file} (secret)`);
      await print(`trust        ${made.trust_file}: install it on hosts as /etc/sbx/release-trust.json`);
    }
    return 0;
  },
};
