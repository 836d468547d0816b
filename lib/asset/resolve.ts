import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3File } from "../base/hash/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { readManifest } from "./manifest.ts";
import { BOOT_NAMES, INITRD, installedName, KERNEL, MANIFEST, OBOM, ROOTFS } from "./name.ts";

/** One installed file, and what its manifest says of it. */
export interface AssetFile {
  /** logical name, such as `vmlinuz` */
  name: string;
  path: string;
  /** BLAKE3, 64 hex characters */
  hash: string;
  /** bytes */
  size: number;
}

/** What a VM boots from. */
export interface Assets {
  /** of the asset release, `YYYY.MMDD.N` */
  version: string;
  arch: string;
  kernel: AssetFile;
  initrd: AssetFile;
  rootfs: AssetFile;
  obom?: AssetFile;
}

/**
 * The files of the installed manifest's current release. Nothing is hashed: {@linkcode verifyAssets} does that.
 *
 * @throws {SbxError} `assets.missing` (412) when there is no manifest, or a file of it is absent; `manifest.invalid`
 */
export async function resolveAssets(home: Home, arch: string): Promise<Assets> {
  const path = join(home.assetsDir, MANIFEST);
  const { manifest } = await readManifest(path).catch((error) => {
    if (error instanceof SbxError && error.code === "manifest.not_found") {
      throw missing("no VM assets are installed", error);
    }
    throw error;
  });
  const { current: version, releases } = manifest.assets;
  const files = releases[version].arches[arch];
  if (!files) throw missing(`the installed asset release ${version} has no files for ${arch}`);
  const found = new Map<string, AssetFile>();
  for (const [name, { hash, size }] of Object.entries(files)) {
    const file = { name, path: join(home.assetsDir, installedName(name, hash)), hash, size };
    if ((await Deno.stat(file.path).catch(() => null))?.isFile) found.set(name, file);
  }
  const absent = BOOT_NAMES.filter((name) => !found.has(name));
  if (absent.length > 0) {
    throw missing(
      `${absent.join(", ")} of the asset release ${version} ${
        absent.length > 1 ? "are" : "is"
      } not installed`,
    );
  }
  const obom = found.get(OBOM);
  return {
    version,
    arch,
    kernel: found.get(KERNEL)!,
    initrd: found.get(INITRD)!,
    rootfs: found.get(ROOTFS)!,
    ...(obom && { obom }),
  };
}

/**
 * Hashes kernel, initrd and rootfs, all at once: done before every boot (spec.md, "Versioning" 5).
 *
 * @throws {SbxError} `assets.mismatch` (412) naming the file, what was expected and what it is; `assets.missing`
 */
export async function verifyAssets(
  { kernel, initrd, rootfs }: Pick<Assets, "kernel" | "initrd" | "rootfs">,
): Promise<void> {
  await Promise.all([kernel, initrd, rootfs].map(verifyFile));
}

/** Size and BLAKE3 of one installed file. @throws {SbxError} `assets.mismatch`, `assets.missing` */
export async function verifyFile({ name, path, hash, size }: AssetFile): Promise<void> {
  const actual = await blake3File(path).catch((cause) => {
    throw missing(`${name} cannot be read at ${path}`, cause);
  });
  if (actual.hash === hash && actual.size === size) return;
  throw new SbxError(
    "assets.mismatch",
    `${path} is not what the manifest says: expected ${hash}, got ${actual.hash}`,
    {
      hint: "sbx update --assets --manifest <URL> installs it again",
    },
  );
}

function missing(what: string, cause?: unknown): SbxError {
  return new SbxError("assets.missing", what, {
    cause,
    hint: "make demo builds and installs them; or: sbx-admin image build --profile code OUT, " +
      "then sbx update --assets --manifest file://OUT/manifest.json",
  });
}
