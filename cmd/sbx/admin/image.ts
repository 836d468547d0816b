/** `sbx image`: images of profiles and OCI images; `../vm` has the parts that commands for VMs use too. */
import { ARCHES, currentArch } from "../../../lib/base/arch/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import type {
  EnvironmentList,
  FreedEnvironments,
  ListedEnvironment,
  PrunedAssets,
  RemovedImage,
} from "../../../lib/client/api/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { type ListedImage, listImages, loadProfile, type Profile } from "../../../lib/config/profile/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import {
  ENVIRONMENT_KEY,
  findEnvironment,
  listEnvironments,
  parseReference,
} from "../../../lib/release/environment/mod.ts";
import { installedImages } from "../../../lib/release/asset/mod.ts";
import { buildFolderImage, IMAGE_BUILD_OPTIONS } from "../vm/build_image.ts";
import { imageOfProfile } from "../vm/image_option.ts";
import { pullImage } from "../vm/pull_image.ts";
import { buildProfileImage } from "../vm/profile_image.ts";
import { ARCH_OPTION, archOf } from "../vm/new_vm.ts";
import { formatConflicts, readConflicts } from "../vm/image_conflicts.ts";
import { table, usageError } from "../output.ts";

const BUILD: Omit<Command, "run"> = {
  name: "image build",
  usage: "DIR|PROFILE [OPTIONS]",
  summary: "build the image of a folder's Dockerfile in a VM, or of a profile's packages",
  notes: [
    "DIR has a / or is a dot: . or ./app. Downloads of a build follow the rules of the profile builder and are recorded (docs/guides/dockerfile.md). The exit code is that of a step that failed.",
    "The image of a profile takes about a minute, and 2.5 GB of disk space meanwhile. Running VMs keep the image that they booted.",
  ],
  options: [...IMAGE_BUILD_OPTIONS, ARCH_OPTION, JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: [{ either: ["profiles", "folders"] }],
  examples: [
    "sbx image build .",
    "sbx image build ./app --file app/Dockerfile.dev --build-arg VERSION=3 --tag app:dev",
    "sbx image build co-work",
    "sbx image build code --arch arm64",
  ],
};

export const command: CommandGroup = {
  name: "image",
  summary: "list, build and remove the images that VMs boot",
  subcommands: [
    {
      name: "image list",
      usage: "[--json]",
      summary: "list each profile's image, and OCI images",
      notes: ["Profiles with the same packages share an image."],
      options: [JSON_OPTION],
      examples: ["sbx image list"],
      run: list,
    },
    {
      name: "image pull",
      usage: "IMAGE [--arch ARCH] [--json]",
      summary: "pull an OCI image, so that VMs can boot it",
      notes: [
        "Asks the registry, even if this home has the image: a tag may lead elsewhere now. VMs keep the image that they were made with.",
      ],
      options: [ARCH_OPTION, JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["images"],
      examples: ["sbx image pull golang:1.25", "sbx image pull oci:./build"],
      run: pull,
    },
    { ...BUILD, run: build },
    {
      name: "image remove",
      usage: "PROFILE|IMAGE [--json]",
      summary: "remove the image of a profile, or an OCI image, and the files that nothing else boots from",
      notes: [
        "Running and suspended VMs keep the files of a profile's image until they stop; sbx image build makes it again. An OCI image that a VM has stays.",
      ],
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: [{ either: ["profiles", "images"] }],
      examples: ["sbx image remove co-work", "sbx image remove golang:1.25"],
      run: remove,
    },
    {
      name: "image conflicts",
      usage: "NAME [--json]",
      summary: "list the files that a VM and its new image have both changed",
      notes: ["Of a VM that sbx set --image gave another image, and that was started since."],
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["vms"],
      examples: ["sbx image conflicts dev"],
      run: conflicts,
    },
    {
      name: "image gc",
      usage: "[--json]",
      summary: "remove OCI images that no VM has and no profile names, and their layers",
      options: [JSON_OPTION],
      examples: ["sbx image gc"],
      run: collect,
    },
    {
      name: "image prune",
      usage: "[--json]",
      summary: "remove files of earlier images, which no VM uses any more",
      notes: ["The service does so at its start, for files older than a day."],
      options: [JSON_OPTION],
      examples: ["sbx image prune"],
      run: prune,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const images = await listImages(home());
  // The service knows the VMs; without OCI images it need not start.
  const hasAny = (await listEnvironments(home())).length > 0;
  const { environments, layer_bytes } = hasAny
    ? await (await connect()).json<EnvironmentList>("GET", "/environments")
    : { environments: [], layer_bytes: 0 };
  if (args.has("json")) {
    await printJson({ images, environments, layer_bytes });
    return 0;
  }
  await print(table(["PROFILE", "IMAGE", "VERSION", "SUITE", "SIZE"], images.map(rowOf)));
  if (environments.length === 0) return 0;
  await print("");
  await print(table(["OCI IMAGE", "DIGEST", "ARCH", "SIZE", "USED BY"], environments.map(environmentRow)));
  await print(`their layers: ${formatBytes(layer_bytes)}`);
  return 0;
}

function rowOf({ profile_id, image, version, suite, bytes, problem }: ListedImage): string[] {
  if (problem) return [profile_id, problem, "", "", ""];
  return [profile_id, image ?? "", version ?? "", suite ?? "", formatBytes(bytes ?? 0)];
}

/** Length of the part of a digest that is shown, in characters: enough to compare. */
const DIGEST_SHOWN = "sha256:".length + 12;

function environmentRow(
  { references, key, digest, arch, bytes, used_by, profiles }: ListedEnvironment,
): string[] {
  const users = [...used_by, ...profiles.map((id) => `profile ${id}`)];
  // A built image has its digest as a second name.
  const names = references.filter((name) => !/^localhost\/.*@/.test(name));
  const name = names.join(", ") || references[0] || key;
  return [name, digest.slice(0, DIGEST_SHOWN), arch, formatBytes(bytes), users.join(", ") || "nothing"];
}

async function pull(args: Arguments): Promise<number> {
  const { environment, isNew } = await pullImage(args.words[0], archOf(args) ?? currentArch(), true);
  const { digest, key, arch, rootfs, config } = environment;
  if (args.has("json")) {
    await printJson({ image: args.words[0], digest, key, arch, bytes: rootfs.size, config, is_new: isNew });
  } else {
    await print(
      `${args.words[0]}: ${digest}, ${formatBytes(rootfs.size)}${isNew ? "" : "; this home had it"}`,
    );
  }
  return 0;
}

async function build(args: Arguments): Promise<number> {
  const [word] = args.words;
  if (/^\.{1,2}$|\//.test(word)) return await buildFolder(args, word);
  for (const { name } of IMAGE_BUILD_OPTIONS) {
    if (!args.has(name)) continue;
    throw usageError(
      { ...BUILD, run: build },
      `--${name} is for a folder with a Dockerfile, and "${word}" names a profile`,
      `write the folder with a slash: sbx image build ./${word}`,
    );
  }
  const profile = await loadProfile(home(), args.words[0]);
  if (profile.image) return await buildImageOf(profile, args);
  const built = await buildProfileImage(profile, archOf(args));
  if (args.has("json")) await printJson(built);
  else {
    await print(
      `image ${built.version} of ${built.profile} is installed: sbx create NAME --profile ${built.profile}`,
    );
  }
  return 0;
}

async function buildImageOf(profile: Profile, args: Arguments): Promise<number> {
  const { environment } = await imageOfProfile(profile, archOf(args) ?? currentArch(), true);
  const { reference, digest, key, arch, rootfs, config } = environment;
  if (args.has("json")) {
    await printJson({ profile: profile.id, image: reference, digest, key, arch, bytes: rootfs.size, config });
  } else {
    await print(
      `${reference}: ${digest}, ${formatBytes(rootfs.size)}\nsbx create NAME --profile ${profile.id}`,
    );
  }
  return 0;
}

async function buildFolder(args: Arguments, dir: string): Promise<number> {
  const built = await buildFolderImage({ ...BUILD, run: build }, args, dir);
  if (typeof built === "number") return built;
  const { environment: { digest, key, arch, rootfs, config, provenance }, reference, pinned, isNew } = built;
  if (args.has("json")) {
    const { build } = provenance;
    await printJson({
      image: reference,
      pinned,
      digest,
      key,
      arch,
      bytes: rootfs.size,
      config,
      build,
      is_new: isNew,
    });
  } else {
    const size = `${formatBytes(rootfs.size)}${isNew ? "" : "; nothing changed since it was built"}`;
    await print(`${reference}: ${digest}, ${size}\nsbx create NAME --image ${reference} boots it`);
  }
  return 0;
}

async function remove(args: Arguments): Promise<number> {
  const [profile] = args.words;
  const client = await connect();
  if (!await isProfileImage(profile)) {
    const path = `/environments?image=${encodeURIComponent(absolute(profile))}`;
    const freed = await client.json<FreedEnvironments>("DELETE", path);
    await (args.has("json") ? printJson(freed) : print(freedImages(freed)));
    return 0;
  }
  const removed = await client.json<RemovedImage>("DELETE", `/images/${segment(profile, "profile")}`);
  if (args.has("json")) {
    await printJson(removed);
    return 0;
  }
  await print(`removed the image of ${profile}: ${freedText(removed)}`);
  if (removed.used_by.length > 0) {
    await print(`in use until they stop, and kept: the files of ${removed.used_by.join(", ")}`);
  }
  for (const id of removed.without_image) {
    await print(`VMs of ${id} cannot start until it has an image again: sbx image build ${id}`);
  }
  return 0;
}

/** True if the word is the id of a profile; false for an OCI image. */
async function isProfileImage(word: string): Promise<boolean> {
  if (/[:/@]/.test(word)) return false;
  if ((await installedImages(home())).includes(word)) return true;
  const known = await Promise.all(
    ARCHES.map((arch) => findEnvironment(home(), parseReference(word).canonical, arch)),
  ).catch(() => []);
  return !ENVIRONMENT_KEY.test(word) && known.every((each) => each === undefined);
}

/** A reference in its full form, with relative paths resolved: the service runs in another folder. */
function absolute(word: string): string {
  return ENVIRONMENT_KEY.test(word) ? word : parseReference(word).canonical;
}

async function conflicts(args: Arguments): Promise<number> {
  const [name] = args.words;
  const found = await readConflicts(await connect(), name);
  await (args.has("json") ? printJson(found) : print(formatConflicts(name, found)));
  return 0;
}

async function collect(args: Arguments): Promise<number> {
  const freed = await (await connect()).json<FreedEnvironments>("POST", "/environments/gc");
  await (args.has("json") ? printJson(freed) : print(freedImages(freed)));
  return 0;
}

async function prune(args: Arguments): Promise<number> {
  const freed = await (await connect()).json<PrunedAssets>("POST", "/images/prune");
  await (args.has("json") ? printJson(freed) : print(freedText(freed)));
  return 0;
}

function freedImages({ environments, bytes }: FreedEnvironments): string {
  const what = environments.length > 0 ? `removed ${environments.join(", ")}` : "no image was left over";
  return `${what}; ${formatBytes(bytes)} freed`;
}

function freedText({ files, bytes }: PrunedAssets): string {
  if (files.length === 0) return "no file was left over";
  return `${count(files.length, "file")}, ${formatBytes(bytes)} freed`;
}
