import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { attestationCheck } from "../../../lib/release/attest/mod.ts";
import { findKeyFiles, readReleaseKeys, type TreeCheck, verifyTree } from "../../../lib/release/mod.ts";
import { KEYS_OPTION, printTreeReport, publisherKeys, verifying, withProgress } from "./options.ts";
import { checkWorkspace } from "../../../lib/publish/mod.ts";

/** Checks beyond the graph. */
const CHECKS: readonly TreeCheck[] = [attestationCheck];

/** `sbx-admin release verify`: a published tree, offline, as a host would verify it. */
export const releaseVerify: Command = {
  name: "release verify",
  usage: "DIR [--trust FILE] [--hmac-keys FILE] [--json]",
  summary: "verify a published tree offline, with the keys that hosts have",
  notes: [
    "Without options, the keys are /etc/sbx/release-trust.json and the ones that the environment names.",
    "The exit code is 1 if something does not verify.",
  ],
  options: [
    { name: "trust", value: "FILE", about: "trust document with the public keys of the publisher" },
    { name: "hmac-keys", value: "FILE", about: "HMAC keys of the publisher" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin release verify /srv/www/sbx --trust release-trust.json"],
  async run(args) {
    const [trust, hmac] = ["trust", "hmac-keys"].map((name) => args.text(name));
    const isNamed = trust !== undefined || hmac !== undefined;
    const files = isNamed ? { trust, hmac } : await findKeyFiles();
    const keys = await readReleaseKeys(files);
    const { report } = await withProgress(
      ["hash"],
      (progress) => verifyTree(args.words[0], { keys, checks: CHECKS, progress }),
    );
    return await printTreeReport(report, args.has("json"));
  },
};

/** `sbx-admin release check`: a workspace before it is published. */
export const releaseCheck: Command = {
  name: "release check",
  usage: "DIR [--keys DIR] [--json]",
  summary: "check a workspace: signatures, digests and files of every release",
  notes: ["The exit code is 1 if something is not signed or does not match."],
  options: [KEYS_OPTION, JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin release check releases"],
  async run(args) {
    const keys = verifying(await publisherKeys(args));
    const report = await withProgress(["hash"], (progress) => checkWorkspace(args.words[0], keys, progress));
    return await printTreeReport(report, args.has("json"));
  },
};
