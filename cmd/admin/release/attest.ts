import { type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { attestRelease, subjectOf } from "../../../lib/release/attest/mod.ts";
import { PROGRAM } from "../program.ts";
import { CHANNEL_OPTION, channelOf, KEYS_OPTION, publisherKeys, verifying } from "./options.ts";

/** `sbx-admin release attest`: provenance, SBOM and OBOM attestations of a release's files. */
export const releaseAttest: Command = {
  name: "release attest",
  usage: "DIR VERSION --source URI --commit HASH --builder URI [OPTIONS]",
  summary: "attest the builds and the contents of the files of a signed release",
  notes: [
    "Sigstore bundles with in-toto statements, one for each signing key of the publisher; release verify checks them.",
  ],
  options: [
    CHANNEL_OPTION,
    { name: "source", value: "URI", about: "where the sources are, such as git+https://…" },
    { name: "commit", value: "HASH", about: "full hash of the commit" },
    { name: "builder", value: "URI", about: "who built it" },
    { name: "material", value: "FILE", about: "what went into the build beside the sources", many: true },
    KEYS_OPTION,
    JSON_OPTION,
  ],
  words: { min: 2, max: 2 },
  examples: [
    "sbx-admin release attest releases 1.2.0 --source git+https://example.com/sbx --commit $(git rev-parse HEAD) --builder https://example.com/ci",
  ],
  async run(args) {
    const [dir, version] = args.words;
    const usage = (problem: string) => usageError({ program: PROGRAM, command: releaseAttest }, problem);
    const [source, commit, builder] = ["source", "commit", "builder"].map((name) => {
      const value = args.text(name);
      if (value === undefined) throw usage(`missing option --${name}`);
      return value;
    });
    if (!/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(commit)) {
      throw usage(`--commit is a full hash, not "${commit}"`);
    }
    for (const uri of [source, builder]) {
      if (!URL.canParse(uri)) throw usage(`"${uri}" is not a URI`);
    }
    const materials = await Promise.all(args.list("material").map((path) => subjectOf(path)));
    const publisher = await publisherKeys(args);
    const attested = await attestRelease(dir, {
      channel: channelOf(args),
      version,
      build: { source, commit, builder, materials },
      signing: publisher.signing,
      keys: verifying(publisher),
    });
    if (args.has("json")) await printJson(attested);
    else await print(`${attested.channel} ${version}: ${count(attested.written.length, "attestation")}`);
    return 0;
  },
};
