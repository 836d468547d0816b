/** Profiles that boot from a released image: its files in place of the ones that their text pins. */
import type { Arch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { appendTable, removeTable, type TomlDocument } from "../../base/toml/mod.ts";
import type { ObomGenerator } from "./obom.ts";

/** A file of an image, as a profile pins it. */
interface ImageFile {
  url: string;
  hash: string;
  size: number;
}

/** Files of an image by architecture and logical name. The OBOM has its generator too. */
export type GeneratedAssets = {
  [arch in Arch]?: Record<string, ImageFile & Partial<ObomGenerator>>;
};

/** Keys of `[assets.arch.<arch>]`, and the logical names of their files. */
const BOOT_FILES = {
  kernel: "vmlinuz",
  initrd: "initrd.img",
  rootfs: "rootfs.erofs",
  layer: "layer.erofs",
} as const;
const OBOM = "obom.cdx.json";

/**
 * Generates a profile that boots from the files of an asset manifest: their addresses, hashes and sizes
 * replace `[assets]` and `[obom]` (docs/design/contracts/10-release.md §10, "Verification").
 *
 * @throws {SbxError} `assets.not_found`: an architecture lacks a boot file, or
 * an OBOM that names its generator
 */
export async function generateProfile(
  document: TomlDocument,
  assets: GeneratedAssets,
): Promise<TomlDocument> {
  for (const table of ["assets", "obom"]) {
    if (table in document.value) document = removeTable(document, [table]);
  }
  for (const [arch, files] of Object.entries(assets)) {
    for (const [key, name] of Object.entries(BOOT_FILES)) {
      const file = files[name];
      if (file) document = await appendTable(document, ["assets", "arch", arch, key], pinOf(name, file));
      // An image need not have a layer.
      else if (key !== "layer") throw incomplete(arch, `no ${name}`);
    }
    const obom = files[OBOM];
    if (obom?.generator === undefined || obom.generator_version === undefined) {
      throw incomplete(arch, "no OBOM that could be read");
    }
    document = await appendTable(document, ["obom", "arch", arch], {
      ...pinOf(OBOM, obom),
      generator: obom.generator,
      generator_version: obom.generator_version,
      rootfs_hash: `blake3:${files[BOOT_FILES.rootfs].hash}`,
    });
  }
  return document;
}

function incomplete(arch: string, lack: string): SbxError {
  return new SbxError("assets.not_found", `the image for ${arch} has ${lack}`, {
    hint: "build the image again: sbx-admin image build OUT_DIR",
  });
}

function pinOf(name: string, { url, hash, size }: ImageFile) {
  return { name, url, hash: `blake3:${hash}`, size };
}
