/** A home's bundle: its files, its active version, and the state that `sbx fleet status` shows. */
import { dirname, join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { ChannelId, ReleaseVersion } from "../../release/schema.ts";
import type { BundleFiles } from "./document.ts";
import { bundlePaths } from "./paths.ts";

/** Names in the folder of a version. `FILES` has the bundle's own files, and corp.toml joined with that of the machine. */
export const MANIFEST = "manifest.json", CONTENT = "bundle.json", FILES = "files";

const Active = z.strictObject({
  schema: z.literal("sbx.fleet-bundle-active.v1"),
  url: z.string(),
  channel: ChannelId,
  version: ReleaseVersion,
  since: z.iso.datetime(),
});
export type Active = z.infer<typeof Active>;

/** Reads the active bundle; `undefined`: none. @throws {SbxError} `bundle.damaged` */
export async function readActive(home: Pick<Home, "dir">): Promise<Active | undefined> {
  const path = bundlePaths(home).active;
  try {
    return Active.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw damaged(path, cause);
  }
}

/** State after the last check. */
export interface BundleStatus {
  schema: "sbx.fleet-bundle-status.v1";
  at: string;
  url: string;
  channel: string;
  /** active version; null: none */
  in_force: string | null;
  /** release for this machine; null: none, or the check failed */
  offered: string | null;
  /** `kept`: the release for this machine is older than the active one, which was not revoked */
  state: "installed" | "same" | "kept" | "none" | "failed";
  /** position of this machine in the stages of the channel, from 0 to below 100 */
  place: number;
  labels: string[];
  /** entries of the bundle that this machine's corp.toml overrides */
  held: string[];
  problem: string | null;
}

export async function writeStatus(home: Pick<Home, "dir">, status: BundleStatus): Promise<void> {
  const path = bundlePaths(home).status;
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, JSON.stringify(status, null, 2) + "\n");
}

/** Reads the state of the last check; `undefined`: no check yet. */
export async function readBundleStatus(home: Pick<Home, "dir">): Promise<BundleStatus | undefined> {
  const text = await ifFound(Deno.readTextFile(bundlePaths(home).status));
  return text === undefined ? undefined : JSON.parse(text);
}

/** Rewrites files that differ from the expected ones, which undoes local changes. */
export async function writeFiles(folder: string, files: BundleFiles): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    if (await Deno.readTextFile(path).catch(() => undefined) === text) continue;
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, text);
  }
}

export function damaged(path: string, cause?: unknown): SbxError {
  return new SbxError("bundle.damaged", `the bundle of this machine is damaged: ${path}`, {
    cause,
    hint: "sbx fleet update fetches it again",
  });
}
