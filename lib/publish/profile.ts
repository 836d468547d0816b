/** The document and files of a profile within a release. */
import { type Arch, ARCHES } from "../base/arch/mod.ts";
import { basename, dirname, resolve } from "node:path";
import {
  DEFAULT_IMAGE,
  LOGICAL_NAMES,
  MANIFEST,
  publishedNames,
  readManifest,
} from "../release/asset/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { blake3File } from "../base/hash/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import { type ProgressSink, silent } from "../base/progress/mod.ts";
import {
  BUILTIN_PROFILES,
  describeObom,
  type GeneratedAssets,
  generateProfile,
  parseProfile,
  type Profile,
} from "../config/profile/mod.ts";
import { digestBytes, type ProfileEntry } from "../release/mod.ts";
import { ReleaseVersion } from "../release/schema.ts";
import { parseToml, readToml, setKey, type TomlDocument } from "../base/toml/mod.ts";
import { copyInto, readInput } from "./file.ts";
import { FILE_MODE, FOLDER_MODE, UNSIGNED, type Workspace } from "./workspace.ts";

/** A profile, an image, or both: at least one. */
export interface ProfileFiles {
  /** profile.toml; default the built-in profile that the image belongs to */
  file?: string;
  /** asset manifest, whose files become the profile's */
  assets?: string;
  /** default the profile's */
  revision?: string;
}

/**
 * Writes the profile document of a release, and copies the image that it pins. With an image it is a
 * generated profile: addresses, hashes and sizes of its boot files come from the asset manifest.
 *
 * @param folder of the release, from `openRelease`
 * @throws {SbxError} `profile.invalid`, `manifest.…`, `assets.mismatch`, `release.profile.invalid`
 */
export async function describeProfile(
  workspace: Workspace,
  folder: string,
  { file, assets, revision }: ProfileFiles,
  progress: ProgressSink = silent,
): Promise<ProfileEntry> {
  const image = assets === undefined ? undefined : (await readManifest(assets)).manifest;
  const release = image?.assets.releases[image.assets.current];
  const id = file === undefined ? release?.image?.profile ?? DEFAULT_IMAGE : basename(dirname(resolve(file)));
  let document = await readDocument(file, id);
  if (revision !== undefined) document = setKey(document, [], "revision", revision);
  // Before anything is copied.
  requireSelfContained(document);
  requireVersion(parseProfile(document, { id, source: "user", path: document.path }));
  if (assets !== undefined && release) {
    const copied = await copyImage(workspace, `${folder}/${id}`, assets, release.arches, progress);
    document = await generateProfile(document, copied);
  }
  const profile = parseProfile(document, { id, source: "user", path: document.path });
  requirePublicPins(profile);
  const url = `${folder}/${id}.toml`;
  const bytes = new TextEncoder().encode(document.text);
  await writeAtomic(workspace.path(url), bytes, FILE_MODE);
  const { sha256, blake3 } = digestBytes(bytes);
  const { min_sbx_version } = profile;
  return {
    id,
    revision: profile.revision,
    url,
    sha256,
    blake3,
    hmac: UNSIGNED,
    ...(min_sbx_version !== undefined && { min_sbx_version }),
  };
}

async function readDocument(file: string | undefined, id: string): Promise<TomlDocument> {
  if (file !== undefined) return await readToml(file);
  const text = BUILTIN_PROFILES.get(id);
  if (text !== undefined) return parseToml(text, `${id}.toml`);
  throw new SbxError("release.profile.invalid", `the image is of profile "${id}", which is not built in`, {
    hint: "name its profile.toml too",
  });
}

/** Refuses a profile that no sbx would ever install. */
function requireVersion({ min_sbx_version: minimum, document }: Profile): void {
  const problem = ReleaseVersion.optional().safeParse(minimum).error?.issues[0].message;
  if (problem === undefined) return;
  throw new SbxError(
    "release.profile.invalid",
    `${document.path}: min_sbx_version ${problem}, and is ${JSON.stringify(minimum)}`,
    { hint: "correct it, or remove it" },
  );
}

/** A released profile is one document: paths of other files would lead nowhere on another host. */
function requireSelfContained({ value, path }: TomlDocument): void {
  const { rule_files, detection, grpc } = value as {
    rule_files?: object;
    detection?: { packs?: unknown[] };
    grpc?: object;
  };
  const other = Object.keys(rule_files ?? {}).length > 0
    ? "[rule_files]"
    : detection?.packs?.length
    ? "[detection]"
    : grpc
    ? "[grpc]"
    : "";
  if (!other) return;
  throw new SbxError(
    "release.profile.invalid",
    `${path} names other files in ${other}, which would not be released`,
    {
      hint: "write its rules into [profiles.rules], and distribute detection packs with corp.toml",
    },
  );
}

/** Refuses pins of files on this machine, which other hosts do not have. */
function requirePublicPins({ assets, obom, document }: Profile): void {
  const pins = [
    ...Object.values(assets?.arch ?? {}).flatMap((files) => Object.values(files)),
    ...Object.values(obom?.arch ?? {}),
  ];
  const local = pins.find(({ url }) => url.startsWith("file:"));
  if (!local) return;
  throw new SbxError(
    "release.profile.invalid",
    `${document.path} pins ${local.url}, a file of this machine`,
    {
      hint: "release its image with it: --assets MANIFEST",
    },
  );
}

type Arches = Record<string, Record<string, { hash: string; size: number }>>;

/** Copies an image and its manifest into `folder`, and verifies the copies. */
async function copyImage(
  workspace: Workspace,
  folder: string,
  manifest: string,
  arches: Arches,
  progress: ProgressSink,
): Promise<GeneratedAssets> {
  await Deno.mkdir(workspace.path(folder), { recursive: true, mode: FOLDER_MODE });
  progress.stage(
    "assets",
    Object.values(arches).flatMap(Object.values).reduce((sum, { size }) => sum + size, 0),
  );
  const generated: GeneratedAssets = {};
  for (const arch of ARCHES.filter((arch) => Object.hasOwn(arches, arch))) {
    const files = generated[arch as Arch] = {} as GeneratedAssets[Arch] & object;
    for (const name of LOGICAL_NAMES.filter((name) => Object.hasOwn(arches[arch], name))) {
      const { hash, size } = arches[arch][name];
      const source = await findSource(dirname(manifest), arch, name);
      const url = await copyInto(workspace, folder, source, `${arch}-${name}`);
      const actual = await blake3File(workspace.path(url), (bytes) => progress.advance(bytes));
      if (actual.hash !== hash || actual.size !== size) {
        throw new SbxError("assets.mismatch", `${source} does not match ${manifest}`, {
          hint: "generate the manifest again: sbx-admin manifest generate ASSETS_DIR",
        });
      }
      files[name] = { url, hash, size, ...(name.endsWith(".json") && describeObom(await readInput(source))) };
    }
  }
  await copyInto(workspace, folder, manifest, MANIFEST);
  return generated;
}

async function findSource(dir: string, arch: string, name: string): Promise<string> {
  const places = publishedNames(arch, name).map((place) => resolve(dir, place));
  for (const path of places) if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  throw new SbxError(
    "assets.not_found",
    `${name} for ${arch} is not beside its manifest; tried ${places.join(", ")}`,
    {
      hint: "give the manifest in the output folder of sbx-admin image build OUT_DIR",
    },
  );
}
