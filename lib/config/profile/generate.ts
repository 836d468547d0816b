import type { Arch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { appendTable, removeTable, type TomlDocument } from "../../base/toml/mod.ts";

/** What wrote an OBOM, by its own metadata. */
export interface ObomGenerator {
  generator: string;
  generator_version: string;
}

/** Files of an image by architecture and logical name. The OBOM has its generator too. */
export type GeneratedAssets = {
  [arch in Arch]?: Record<string, { url: string; hash: string; size: number } & Partial<ObomGenerator>>;
};

/** Keys of `[assets.arch.<arch>]`, and the logical names of their files. */
const BOOT_KEYS = { kernel: "vmlinuz", initrd: "initrd.img", rootfs: "rootfs.erofs" };
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
