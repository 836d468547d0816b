/** New profiles: copied from another one, or generated from the files of an asset manifest. */
import { dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { appendTable, removeTable, setKey, type TomlDocument } from "../../base/toml/mod.ts";
import { loadProfile, profilePath } from "./load.ts";
import { PROFILE_ID } from "./schema.ts";
import type { Arch } from "../../base/arch/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";

/**
 * Creates a profile of the user from another profile. Paths are copied unchanged: files relative to the
 * profile's folder must be copied too.
 *
 * @returns path of the new profile.toml
 * @throws {SbxError} `profile.not_found`; `profile.invalid`; `profile.conflict`: the new id exists
 */
export async function copyProfile(
  home: Pick<Home, "profilesDir">,
  id: string,
  newId: string,
): Promise<string> {
  const { document } = await loadProfile(home, id);
  return await saveProfile(home, newId, setKey(document, [], "id", newId).text);
}

/**
 * Saves the text of a new profile of the user. The text is not checked: parse it before.
 *
 * @returns path of its profile.toml
 * @throws {SbxError} `profile.invalid`: for an invalid id; `profile.conflict`: the id exists
 */
export async function saveProfile(
  home: Pick<Home, "profilesDir">,
  id: string,
  text: string,
): Promise<string> {
  if (!PROFILE_ID.test(id)) {
    throw new SbxError("profile.invalid", `invalid profile id ${JSON.stringify(id)}`, {
      hint: "use 1 to 64 of a-z 0-9 _ -",
    });
  }
  const path = profilePath(home, id);
  if (await Deno.lstat(dirname(path)).then(() => true, () => false)) {
    throw new SbxError("profile.conflict", `${dirname(path)} already exists`, { hint: "choose another id" });
  }
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, text);
  return path;
}

/** What wrote an OBOM, by its own metadata. */
interface ObomGenerator {
  generator: string;
  generator_version: string;
}

/** Files of an image by architecture and logical name. The OBOM has its generator too. */
export type GeneratedAssets = {
  [arch in Arch]?: Record<string, { url: string; hash: string; size: number } & Partial<ObomGenerator>>;
};

/** Keys of `[assets.arch.<arch>]`, and the logical names of their files. */
const BOOT_KEYS = { kernel: "vmlinuz", initrd: "initrd.img", rootfs: "rootfs.erofs", layer: "layer.erofs" };
const OBOM = "obom.cdx.json";

/**
 * Generates a profile that boots from the files of an asset manifest: their addresses, hashes and sizes replace `[assets]`
 * and `[obom]` (docs/design/contracts/10-release.md §10, "Verification").
 *
 * @throws {SbxError} `assets.not_found`: an architecture has no OBOM, which a generated profile needs
 */
export async function generateProfile(
  document: TomlDocument,
  assets: GeneratedAssets,
): Promise<TomlDocument> {
  for (const table of ["assets", "obom"]) {
    if (table in document.value) document = removeTable(document, [table]);
  }
  for (const [arch, files] of Object.entries(assets)) {
    for (const [key, name] of Object.entries(BOOT_KEYS)) {
      if (!files[name] && key === "layer") continue;
      document = await appendTable(document, ["assets", "arch", arch, key], pinOf(name, files[name]));
    }
    const { generator, generator_version, ...obom } = files[OBOM] ?? {};
    if (generator === undefined || generator_version === undefined) {
      throw new SbxError("assets.not_found", `the image for ${arch} has no OBOM that could be read`, {
        hint: "build the image again: sbx-admin image build OUT_DIR",
      });
    }
    document = await appendTable(document, ["obom", "arch", arch], {
      ...pinOf(OBOM, obom as { url: string; hash: string; size: number }),
      generator,
      generator_version,
      rootfs_hash: `blake3:${files[BOOT_KEYS.rootfs].hash}`,
    });
  }
  return document;
}

/** Reads the generator of an OBOM; undefined if its bytes do not name it. */
export function describeObom(bytes: Uint8Array): ObomGenerator | undefined {
  try {
    const { metadata } = JSON.parse(decodeUtf8(bytes) ?? "");
    const { name, version } = metadata.tools.components[0];
    return { generator: String(name), generator_version: String(version) };
  } catch {
    return undefined;
  }
}

function pinOf(name: string, { url, hash, size }: { url: string; hash: string; size: number }) {
  return { name, url, hash: `blake3:${hash}`, size };
}
