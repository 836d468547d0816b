/** Generates the manifest of built images. */
import { ARCHES } from "../../base/arch/mod.ts";
import { join, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3File } from "../../base/hash/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { B3SUMS, BOOT_NAMES, fileError, LOGICAL_NAMES, MANIFEST } from "./name.ts";
import { parseManifest, readManifest } from "./manifest.ts";
import {
  AssetVersion,
  DEFAULT_REFRESH_POLICY,
  type ImageRecord,
  type Manifest,
  MANIFEST_FORMAT,
  type ManifestFile,
} from "./schema.ts";

type Arches = Record<string, Record<string, ManifestFile>>;

/** Options for generating a manifest. */
export interface GenerateOptions {
  /** `YYYY.MMDD.N`; default is the current version for unchanged files, else today's next number */
  version?: string;
  /** version of sbx the files are for */
  binaryVersion: string;
  /** build record of the image; default is the old manifest's for the same files */
  image?: ImageRecord;
  now?: Date;
  /** the stage `hash` counts bytes */
  progress?: ProgressSink;
}

/** Mode of published files, which everybody may read. */
const PUBLISHED_MODE = 0o644;

/**
 * Hashes `<dir>/<arch>/{vmlinuz,initrd.img,rootfs.erofs,obom.cdx.json}` and writes `<dir>/manifest.json` and
 * `<dir>/B3SUMS` (docs/design/contracts/10-release.md §10).
 *
 * @returns path of the manifest
 * @throws {SbxError} `manifest.version.invalid`; `assets.not_found`: a file is missing or empty
 */
export async function generateManifest(dir: string, options: GenerateOptions): Promise<string> {
  const { binaryVersion, now = new Date(), progress = silent } = options;
  const arches = await hashArches(dir, progress);
  const path = join(dir, MANIFEST);
  const old = await readManifest(path).then(({ manifest }) => manifest, () => null);
  const unchanged = old && isOf(old, arches) ? old : null;
  const version = options.version ?? unchanged?.assets.current ?? nextVersion(old, now);
  const image = options.image ?? unchanged?.assets.releases[unchanged.assets.current].image;
  requireAssetVersion(version, now);
  const date = now.toISOString().slice(0, 10);
  const manifest: Manifest = {
    format: MANIFEST_FORMAT,
    refresh_policy: DEFAULT_REFRESH_POLICY,
    assets: {
      current: version,
      releases: {
        [version]: { date, deprecated: false, min_binary: binaryVersion, ...(image && { image }), arches },
      },
    },
    binaries: {
      current: binaryVersion,
      releases: { [binaryVersion]: { date, deprecated: false, min_assets: version } },
    },
  };
  const text = JSON.stringify(manifest, null, 2) + "\n";
  parseManifest(text, path);
  const sums = Object.entries(arches).flatMap(([arch, files]) =>
    Object.entries(files).map(([name, { hash }]) => `${hash}  ${arch}/${name}\n`)
  );
  try {
    await writeAtomic(join(dir, B3SUMS), sums.join(""), PUBLISHED_MODE);
    await writeAtomic(path, text, PUBLISHED_MODE);
  } catch (error) {
    throw fileError(error, `writing ${path}`);
  }
  return path;
}

/** @throws {SbxError} `manifest.version.invalid`: not `YYYY.MMDD.N` */
export function requireAssetVersion(version: string, now = new Date()): void {
  if (AssetVersion.safeParse(version).success) return;
  throw new SbxError("manifest.version.invalid", `invalid asset version "${version}"`, {
    hint: `use YYYY.MMDD.N, such as ${dayVersion(now)}.1`,
  });
}

async function hashArches(dir: string, progress: ProgressSink): Promise<Arches> {
  const inputs: { arch: string; name: string; path: string; size: number }[] = [];
  for (const arch of ARCHES) {
    const exists = await Deno.stat(join(dir, arch)).then((info) => info.isDirectory, () => false);
    if (!exists) continue;
    for (const name of LOGICAL_NAMES) {
      const path = join(dir, arch, name);
      const info = await Deno.stat(path).catch(() => null);
      if (info?.isFile && info.size > 0) inputs.push({ arch, name, path, size: info.size });
      else if (info || BOOT_NAMES.includes(name)) {
        throw new SbxError("assets.not_found", `${path} is ${info ? "empty, or not a file" : "missing"}`, {
          hint: `build ${BOOT_NAMES.join(", ")} and ${LOGICAL_NAMES.at(-1)}: sbx-admin image build OUT_DIR`,
        });
      }
    }
  }
  if (inputs.length === 0) {
    throw new SbxError("assets.not_found", `${resolve(dir)} has neither a folder arm64 nor a folder x86_64`, {
      hint: "give the output folder of sbx-admin image build OUT_DIR",
    });
  }
  progress.stage("hash", inputs.reduce((sum, { size }) => sum + size, 0));
  const arches: Arches = {};
  for (const { arch, name, path } of inputs) {
    const hashed = blake3File(path, (bytes) => progress.advance(bytes));
    (arches[arch] ??= {})[name] = await hashed.catch((error) => {
      throw fileError(error, `reading ${path}`);
    });
  }
  return arches;
}

/** Tests whether a manifest's current release has these files. */
function isOf({ assets: { current, releases } }: Manifest, arches: Arches): boolean {
  return JSON.stringify(releases[current].arches) === JSON.stringify(arches);
}

/** Today's next number. */
function nextVersion(old: Manifest | null, now: Date): string {
  const today = dayVersion(now);
  const numbers = Object.keys(old?.assets.releases ?? {}).filter((version) => version.startsWith(`${today}.`))
    .map((version) => Number(version.split(".")[2]));
  return `${today}.${Math.max(0, ...numbers) + 1}`;
}

function dayVersion(now: Date): string {
  const [year, month, day] = now.toISOString().slice(0, 10).split("-");
  return `${year}.${month}${day}`;
}
