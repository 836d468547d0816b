/** The installed images of a home, and the boot files of each; links for other architectures. */
import { type Arch, ARCHES } from "../../base/arch/mod.ts";
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3File, type FileHash, fileStamp } from "../../base/hash/mod.ts";
import { type Home, isPackaged } from "../../base/home/mod.ts";
import { requireCompatibleAssets } from "./manifest.ts";
import { BOOT_NAMES, DEFAULT_IMAGE, INITRD, installedName, KERNEL, LAYER, OBOM, ROOTFS } from "./name.ts";
import { type InstalledManifest, installedProfiles, readInstalled } from "./pair.ts";
import type { ImagePackages, ImageRecord } from "./schema.ts";

/** One installed file, with hash and size from its manifest. */
export interface AssetFile {
  /** logical name, such as `vmlinuz` */
  name: string;
  path: string;
  /** BLAKE3, 64 hex characters */
  hash: string;
  /** size in `bytes` */
  size: number;
}

/** Boot files of a VM. */
export interface Assets {
  /** version of the asset release, `YYYY.MMDD.N` */
  version: string;
  arch: Arch;
  kernel: AssetFile;
  initrd: AssetFile;
  rootfs: AssetFile;
  /** the guest programs of sbx; absent where the root file system has them */
  layer?: AssetFile;
  /** as the manifest pins it: VMs boot without it, so that its file may be missing */
  obom?: AssetFile;
  /** build record of the files; absent in manifests for every profile */
  image?: ImageRecord;
}

/** Folders with images of a home: its own, then that of all users. */
type Folders = Pick<Home, "assetsDir" | "sharedAssetsDir">;

/** Lists the profiles whose images are installed, the default one first. */
export async function installedImages(home: Folders): Promise<string[]> {
  const all = (await Promise.all(foldersOf(home).map(installedProfiles))).flat();
  return [...new Set(all)].sort((a, b) =>
    Number(b === DEFAULT_IMAGE) - Number(a === DEFAULT_IMAGE) || (a < b ? -1 : 1)
  );
}

/** The folder of a profile's image: the home's own if it has one, else the one for all users. */
export async function imageFolder(home: Folders, profile = DEFAULT_IMAGE): Promise<string> {
  for (const dir of foldersOf(home)) if ((await installedProfiles(dir)).includes(profile)) return dir;
  return home.assetsDir;
}

function foldersOf({ assetsDir, sharedAssetsDir }: Folders): string[] {
  return [assetsDir, ...sharedAssetsDir ? [sharedAssetsDir] : []];
}

/**
 * Reads the manifest that a profile's image is taken from, with its origin.
 *
 * @throws {SbxError} `manifest.not_found`, `manifest.invalid`
 */
export async function imageManifest(home: Folders, profile = DEFAULT_IMAGE): Promise<InstalledManifest> {
  return await readInstalled(await imageFolder(home, profile), profile);
}

/**
 * Build record of a profile's installed image.
 *
 * @returns undefined without one, or if it is for every profile
 */
export async function installedImage(home: Home, profile: string): Promise<ImageRecord | undefined> {
  const { manifest } = await imageManifest(home, profile);
  const { current, releases } = manifest.assets;
  return releases[current].image;
}

/**
 * Resolves the files of an installed manifest's current release. {@linkcode verifyAssets} hashes them.
 *
 * @throws {SbxError} `assets.missing` (412): the manifest or one of its boot files is missing;
 * `manifest.invalid`; `assets.incompatible` (409)
 */
export async function resolveAssets(home: Home, arch: Arch, profile = DEFAULT_IMAGE): Promise<Assets> {
  const dir = await imageFolder(home, profile);
  const { manifest } = await readInstalled(dir, profile).catch((error) => {
    if (error instanceof SbxError && error.code === "manifest.not_found") {
      throw missingError("no VM assets are installed", error);
    }
    throw error;
  });
  requireCompatibleAssets(manifest);
  const { current: version, releases } = manifest.assets;
  const { image, arches: { [arch]: files } } = releases[version];
  if (!files) {
    throw new SbxError(
      "assets.missing",
      `the installed release ${version} of "${profile}" is not for ${arch}`,
      {
        hint: `build it: sbx image build ${profile} --arch ${arch}`,
      },
    );
  }
  const listed = new Map(
    Object.entries(files).map(([name, { hash, size }]): [string, AssetFile] => [
      name,
      { name, path: join(dir, installedName(name, hash)), hash, size },
    ]),
  );
  const missing: string[] = [];
  for (const name of [...BOOT_NAMES, ...listed.has(LAYER) ? [LAYER] : []]) {
    const info = await Deno.stat(listed.get(name)!.path).catch(() => null);
    if (!info?.isFile) missing.push(name);
  }
  if (missing.length > 0) {
    throw missingError(
      `${missing.join(", ")} of the asset release ${version} ${
        missing.length > 1 ? "are" : "is"
      } not installed`,
    );
  }
  const [layer, obom] = [listed.get(LAYER), listed.get(OBOM)];
  return {
    version,
    arch,
    kernel: listed.get(KERNEL)!,
    initrd: listed.get(INITRD)!,
    rootfs: listed.get(ROOTFS)!,
    ...(layer && { layer }),
    ...(obom && { obom }),
    ...(image && { image }),
  };
}

/** The files that a VM boots from. */
export function bootFiles(
  { kernel, initrd, rootfs, layer }: Pick<Assets, "kernel" | "initrd" | "rootfs" | "layer">,
): AssetFile[] {
  return [kernel, initrd, rootfs, ...layer ? [layer] : []];
}

/**
 * Hashes the files that a VM boots from concurrently, before every boot
 * (docs/design/contracts/10-release.md §10, "Verification").
 *
 * @throws {SbxError} `assets.mismatch` (412): names the file, the expected and the actual hash;
 * `assets.missing`
 */
export async function verifyAssets(
  assets: Pick<Assets, "kernel" | "initrd" | "rootfs" | "layer">,
): Promise<void> {
  await Promise.all(bootFiles(assets).map(verifyFile));
}

/** Verifies size and BLAKE3 of one installed file. @throws {SbxError} `assets.mismatch`, `assets.missing` */
export async function verifyFile({ name, path, hash, size }: AssetFile): Promise<void> {
  const actual = await hashOnce(path).catch((cause) => {
    throw missingError(`${name} cannot be read at ${path}`, cause);
  });
  if (actual.hash === hash && actual.size === size) return;
  throw new SbxError(
    "assets.mismatch",
    `${path} does not match the manifest: expected ${hash}, got ${actual.hash}`,
    {
      hint: "install it again: sbx update --assets --manifest <URL>",
    },
  );
}

/** Age of a file's last write, in `ms`, from which a later write surely has a different time. */
const STAMP_AGE_MS = 2000;

/** Files that this process has hashed, by path. */
const hashed = new Map<string, { stamp: string; result: FileHash }>();

/** Hashes a file that was not hashed yet, or was written since. */
async function hashOnce(path: string): Promise<FileHash> {
  const stamp = await fileStamp(path);
  const known = hashed.get(path);
  if (known?.stamp === stamp) return known.result;
  const began = Date.now();
  const result = await blake3File(path);
  // Deno has no time for the epoch, which files of an image that is built reproducibly have.
  const changed = (await Deno.stat(path)).ctime?.getTime() ?? 0;
  // A write in the same tick of the file system's clock would leave the same stamp.
  if (await fileStamp(path) === stamp && began - changed > STAMP_AGE_MS) {
    hashed.set(path, { stamp, result });
  }
  return result;
}

function missingError(message: string, cause?: unknown): SbxError {
  return new SbxError("assets.missing", message, {
    cause,
    hint: isPackaged()
      ? "install them: sbx update --assets --manifest URL; where the package names them: sudo /usr/lib/sbx/update-assets"
      : "build and install them: make demo; or sbx-admin image build --profile code OUT, " +
        "then sbx update --assets --manifest file://OUT/manifest.json",
  });
}

/** An image that is about to be built. */
interface NewImage {
  profile: string;
  packages: ImagePackages;
  arch: Arch;
  /** its output folder */
  out: string;
}

/**
 * Links the installed files of a profile's image for the other architectures into the output folder
 * of a new one, so that one manifest describes both. An image of other packages is left out: the
 * new manifest would misstate it.
 */
export async function linkOtherArches(home: Home, { profile, packages, arch, out }: NewImage): Promise<void> {
  for (const other of ARCHES.filter((each) => each !== arch)) {
    const assets = await resolveAssets(home, other, profile).catch(() => undefined);
    if (JSON.stringify(assets?.image?.packages) !== JSON.stringify(packages) || !assets) continue;
    const { obom } = assets;
    await Deno.mkdir(join(out, other), { mode: 0o755 });
    for (const file of [...bootFiles(assets), ...obom ? [{ ...obom, name: OBOM }] : []]) {
      await Deno.symlink(file.path, join(out, other, file.name));
    }
  }
}
