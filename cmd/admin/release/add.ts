import { type Arguments, type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import {
  addEntries,
  describeBundle,
  describePackage,
  describeProfile,
  type Entries,
  openRelease,
  type Target,
  Workspace,
} from "../../../lib/publish/mod.ts";
import { type Status, STATUSES } from "../../../lib/release/schema.ts";
import { PROGRAM } from "../program.ts";
import { CHANNEL_OPTION, channelOf, withProgress } from "./options.ts";

/** `sbx-admin release add`: files into a release that is not signed yet. */
export const releaseAdd: Command = {
  name: "release add",
  usage: "DIR VERSION [OPTIONS]",
  summary: "add a package, a profile or an image to a release, which is made if it is not there",
  notes: [
    "Several calls add to the same release until it is signed.",
    "With --assets the profile boots from that image; without --profile it is the built-in profile of the image.",
  ],
  options: [
    CHANNEL_OPTION,
    { name: "label", value: "TEXT", about: "name of a new channel for people; default its id" },
    {
      name: "status",
      value: "STATUS",
      about: `status of a new release: ${STATUSES.join(", ")}; default current`,
      choices: STATUSES,
    },
    { name: "min-sbx", value: "VERSION", about: "oldest sbx that may install the release" },
    { name: "max-sbx", value: "VERSION", about: "newest sbx that may install the release" },
    { name: "package", value: "FILE", about: "a .deb or .pkg; needs --sbom" },
    { name: "sbom", value: "FILE", about: "SPDX 2.3 document of the package" },
    {
      name: "binary",
      value: "PATH=FILE",
      many: true,
      about: "a binary of the package: where it is installed, and the file here",
    },
    { name: "profile", value: "FILE", about: "a profile.toml; its folder's name is its id" },
    { name: "assets", value: "MANIFEST", about: "asset manifest of the profile's image" },
    { name: "revision", value: "VERSION", about: "revision of the profile; default the one in it" },
    {
      name: "bundle",
      value: "FOLDER",
      about: "corp.toml for a fleet, with the rules and packs that it names",
    },
    JSON_OPTION,
  ],
  words: { min: 2, max: 2 },
  examples: [
    "sbx-admin release add releases 1.2.0 --package sbx_1.2.0_amd64.deb --sbom sbx-sbom.spdx.json --binary /usr/bin/sbx=dist/sbx",
    "sbx-admin release add releases 1.2.0 --assets dist/assets/manifest.json --revision 1.2.0",
  ],
  async run(args) {
    const [dir, version] = args.words;
    const workspace = await Workspace.open(dir);
    const target = targetOf(args);
    const folder = await openRelease(workspace, target);
    const entries: Entries = {
      ...await packageEntries(args, workspace, folder),
      ...await profileEntries(args, workspace, folder),
      ...await bundleEntries(args, workspace, folder),
    };
    if (Object.keys(entries).length === 0) {
      throw usage("nothing to add: give --package, --profile, --assets or --bundle");
    }
    const record = await addEntries(workspace, target, entries);
    if (args.has("json")) await printJson({ channel: target.channel, ...record, added: entries });
    else {
      const names = [
        ...(entries.packages ?? []).map(({ name }) => `package ${name}`),
        ...(entries.binaries ?? []).map(({ name }) => `binary ${name}`),
        ...(entries.profiles ?? []).map(({ id, revision }) => `profile ${id} ${revision}`),
        ...(entries.bundles ?? []).map(({ bytes }) => `bundle of ${bytes} bytes`),
      ];
      await print(`${target.channel} ${version}: ${names.join(", ")}`);
      await print(`sign it when it is complete: ${PROGRAM} release sign ${dir}`);
    }
    return 0;
  },
};

function targetOf(args: Arguments): Target {
  const status = args.text("status") as Status | undefined;
  const [label, min, max] = ["label", "min-sbx", "max-sbx"].map((name) => args.text(name));
  return {
    channel: channelOf(args),
    version: args.words[1],
    ...(label !== undefined && { label }),
    ...(status && { status }),
    ...(min !== undefined && { min_sbx_version: min }),
    ...(max !== undefined && { max_sbx_version: max }),
  };
}

async function packageEntries(args: Arguments, workspace: Workspace, folder: string): Promise<Entries> {
  const [file, sbom] = ["package", "sbom"].map((name) => args.text(name));
  const binaries = args.list("binary").map((text) => {
    const at = text.indexOf("=");
    if (at <= 0) throw usage(`--binary is PATH=FILE, not "${text}"`);
    return { path: text.slice(0, at), file: text.slice(at + 1) };
  });
  if (file === undefined && (sbom !== undefined || binaries.length > 0)) {
    throw usage("--sbom and --binary need --package");
  }
  if (file === undefined) return {};
  if (sbom === undefined) throw usage("--package needs --sbom");
  return await describePackage(workspace, folder, { file, sbom, binaries, version: args.words[1] });
}

async function profileEntries(args: Arguments, workspace: Workspace, folder: string): Promise<Entries> {
  const [file, assets, revision] = ["profile", "assets", "revision"].map((name) => args.text(name));
  if (file === undefined && assets === undefined) {
    if (revision !== undefined) throw usage("--revision needs --profile or --assets");
    return {};
  }
  const entry = await withProgress(
    ["assets"],
    (progress) => describeProfile(workspace, folder, { file, assets, revision }, progress),
  );
  return { profiles: [entry] };
}

/** A bundle is tried as a machine without its own corp.toml would load it. */
async function bundleEntries(args: Arguments, workspace: Workspace, folder: string): Promise<Entries> {
  const source = args.text("bundle");
  if (source === undefined) return {};
  const [{ packBundle, parseBundle, parseCorp }, { loadCorp }, { checkCorp }] = await Promise.all([
    import("../../../lib/fleet/bundle/mod.ts"),
    import("../../../lib/config/corp/mod.ts"),
    import("../../../lib/home/value_check/mod.ts"),
  ]);
  const content = await packBundle(source);
  await parseCorp(parseBundle(content, source), source);
  const config = await loadCorp(`${source}/corp.toml`);
  const problems = await checkCorp(config, config.path);
  if (problems.length > 0) {
    throw new SbxError("bundle.invalid", problems.join("\n"), {
      hint: `mend ${source}/corp.toml: a machine with this bundle would refuse it`,
    });
  }
  return { bundles: [await describeBundle(workspace, folder, content)] };
}

function usage(problem: string) {
  return usageError({ program: PROGRAM, command: releaseAdd }, problem);
}
