/** The installed image in a debug report: its manifest, and its files against it. */
import { join } from "node:path";
import { currentArch } from "../../base/arch/mod.ts";
import { blake3, blake3File } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { DebugReport } from "../../client/api/mod.ts";
import {
  DEFAULT_IMAGE,
  imageFolder,
  installedName,
  manifestNames,
  readInstalled,
} from "../../release/asset/mod.ts";
import { within } from "./probe.ts";

type Assets = DebugReport["assets"];
type AssetState = Assets["files"]["kernel"];

/** Names of the boot files in a manifest. */
const FILES = { kernel: "vmlinuz", initrd: "initrd.img", rootfs: "rootfs.erofs" } as const;
/** Longest time to hash one, in `ms`. */
const HASH_MS = timeLimit(20_000);

/** The installed manifest of the default image, and its files against it. */
export async function assetsOf(home: Pick<Home, "assetsDir" | "sharedAssetsDir">): Promise<Assets> {
  const assetsDir = await imageFolder(home);
  const path = join(assetsDir, manifestNames(DEFAULT_IMAGE).manifest);
  const installed = await within(readInstalled(assetsDir), undefined);
  const release = installed?.manifest.assets.releases[installed.manifest.assets.current];
  const listed: Record<string, { hash: string; size: number }> = release?.arches[currentArch()] ?? {};
  const [kernel, initrd, rootfs] = await Promise.all(
    Object.values(FILES).map((name) => fileOf(assetsDir, name, listed[name])),
  );
  return {
    manifest: {
      path,
      exists: installed !== undefined || await within(Deno.stat(path).then(() => true), false),
      hash: installed ? blake3(installed.bytes) : "",
      signature: signatureOf(installed?.origin),
    },
    asset_version_for_binary: installed?.manifest.assets.current ?? "",
    files: { kernel, initrd, rootfs },
  };
}

/** A manifest has no signature of its own: its origin vouches for it. */
function signatureOf(origin: { origin: string; source: string } | undefined): string {
  return origin ? `${origin.origin}: ${origin.source}` : "";
}

async function fileOf(
  dir: string,
  name: string,
  listed?: { hash: string; size: number },
): Promise<AssetState> {
  const path = listed ? join(dir, installedName(name, listed.hash)) : join(dir, name);
  const none = {
    path,
    exists: false,
    manifest_hash: listed?.hash ?? "",
    manifest_size_bytes: listed?.size ?? 0,
    actual_hash: "",
    size_bytes: 0,
    actual_hash_matches_manifest: false,
  };
  const info = await within(Deno.stat(path), undefined);
  if (!info?.isFile) return none;
  const there = { ...none, exists: true, size_bytes: info.size };
  const actual = await within(blake3File(path), undefined, HASH_MS);
  return !actual ? there : {
    ...there,
    actual_hash: actual.hash,
    size_bytes: actual.size,
    actual_hash_matches_manifest: actual.hash === listed?.hash && actual.size === listed.size,
  };
}
