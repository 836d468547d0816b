/**
 * `sbx-admin release init`, `support`, `deprecate`, `revoke`, `stage` and `sign`: the workspace, before it is
 * published.
 */
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import {
  initWorkspace,
  markRelease,
  signWorkspace,
  stageRelease,
  Workspace,
} from "../../../lib/publish/mod.ts";
import { describeStage, INDEX_AGE_DAYS_MAX, type Status } from "../../../lib/release/mod.ts";
import { PROGRAM } from "../program.ts";
import { CHANNEL_OPTION, channelOf, KEYS_OPTION, publisherKeys } from "./options.ts";

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

/** `sbx-admin release support`, `deprecate` and `revoke`: a status moves forward. */
export const releaseSupport = mark(
  "support",
  "supported",
  "mark a release as supported: newer ones are preferred",
);
export const releaseDeprecate = mark(
  "deprecate",
  "deprecated",
  "mark a release as deprecated: hosts that run it show a notice",
);
export const releaseRevoke = mark(
  "revoke",
  "revoked",
  "withdraw a release: nothing that only it contains installs or starts any more",
);

function mark(word: string, status: Status, summary: string): Command {
  return {
    name: `release ${word}`,
    usage: "DIR VERSION [--channel ID] [--json]",
    summary,
    notes: ["A status never moves back. Sign and publish afterwards."],
    options: [CHANNEL_OPTION, JSON_OPTION],
    words: { min: 2, max: 2 },
    examples: [`sbx-admin release ${word} releases 1.2.0`],
    async run(args) {
      const [dir, version] = args.words;
      const channel = channelOf(args);
      await Workspace.change(dir, (workspace) => markRelease(workspace, channel, version, status));
      if (args.has("json")) await printJson({ channel, version, status });
      else {
        await print(
          `${channel} ${version} is ${status} once it is signed and published: ${PROGRAM} release sign ${dir}`,
        );
      }
      return 0;
    },
  };
}

/** `sbx-admin release stage`: the machines that a release is for. */
export const releaseStage: Command = {
  name: "release stage",
  usage: "DIR VERSION [--percent N] [--label NAME]… [--channel ID] [--json]",
  summary: "offer a release to a part of the machines; without options to all",
  notes: [
    "Sign and publish afterwards. A machine that has the release keeps it when the part shrinks: release revoke takes it back.",
  ],
  options: [
    { name: "percent", value: "N", about: "of the machines, always the same ones; default 100" },
    { name: "label", value: "NAME", many: true, about: "only machines with this label in their corp.toml" },
    CHANNEL_OPTION,
    JSON_OPTION,
  ],
  words: { min: 2, max: 2 },
  examples: ["sbx-admin release stage releases 1.2.0 --channel fleet --percent 10 --label canary"],
  async run(args) {
    const [dir, version] = args.words;
    const channel = channelOf(args);
    const percent = args.number("percent", { min: 0, max: 100 }) ?? 100;
    const labels = args.list("label");
    const stage = percent === 100 && labels.length === 0
      ? undefined
      : { percent, ...(labels.length > 0 && { labels }) };
    await Workspace.change(dir, (workspace) => stageRelease(workspace, channel, version, stage));
    if (args.has("json")) await printJson({ channel, version, stage: stage ?? null });
    else {
      const part = stage ? describeStage(stage) : "all machines";
      await print(
        `${channel} ${version} is for ${part} once it is signed and published: ${PROGRAM} release sign ${dir}`,
      );
    }
    return 0;
  },
};

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
