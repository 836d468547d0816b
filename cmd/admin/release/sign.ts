import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { signWorkspace, Workspace } from "../../../lib/publish/mod.ts";
import { INDEX_AGE_DAYS_MAX } from "../../../lib/release/mod.ts";
import { KEYS_OPTION, publisherKeys } from "./options.ts";

/** `sbx-admin release sign`: HMACs of records, and the signature of the index. */
export const releaseSign: Command = {
  name: "release sign",
  usage: "DIR [--keys DIR] [--json]",
  summary: "sign new releases, changed statuses and the index",
  notes: [
    `Hosts refuse an index that was signed more than ${INDEX_AGE_DAYS_MAX} days ago: sign and publish more often than that.`,
  ],
  options: [KEYS_OPTION, JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin release sign releases", "sbx-admin release sign releases --keys /run/media/keys"],
  async run(args) {
    const { keys, signed, generated_at } = await Workspace.change(args.words[0], async (workspace) => {
      const keys = await publisherKeys(args);
      const signed = await signWorkspace(workspace, keys);
      return { keys, signed, generated_at: workspace.index.generated_at };
    });
    const ids = keys.signing.map(({ publicKey }) => publicKey.id);
    if (args.has("json")) await printJson({ generated_at, signed, hmac_key: keys.hmac[0].id, keys: ids });
    else {
      for (const name of signed) await print(`signed ${name}`);
      await print(`index of ${generated_at}, HMAC key ${keys.hmac[0].id}, signed by ${ids.join(", ")}`);
    }
    return 0;
  },
};
