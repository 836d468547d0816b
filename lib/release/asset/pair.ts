/**
 * Manifest and origin of an installed image, replaced together (docs/design/contracts/10-release.md §10,
 * "Manifest origin and update").
 *
 * Two files cannot be renamed at once. So the new pair is written as one pending file first: from the moment
 * it has its name it is the installed pair, also for a program that finds it after a crash.
 */
import { ifFound, ignore } from "../../base/error/mod.ts";
import { join } from "node:path";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { parseManifest, readManifest } from "./manifest.ts";
import { DEFAULT_IMAGE, fileError, MANIFEST, manifestNames } from "./name.ts";
import { type Manifest, ManifestOrigin } from "./schema.ts";

/** An installed manifest and where it came from. */
export interface InstalledManifest {
  manifest: Manifest;
  bytes: Uint8Array;
  /** absent: put there by hand, or damaged */
  origin?: ManifestOrigin;
}

/** Content of a pending file. */
interface Pair {
  /** text of the manifest */
  manifest: string;
  origin: ManifestOrigin;
}

/** Leftovers of {@linkcode writeAtomic}: while the lock is held, no other program is writing one. */
const TEMPORARY = /^\.[0-9a-f-]{36}\.tmp$/;
const PENDING = /^\.(.*)\.pending$/;

/**
 * Replaces both files or neither. The caller holds the lock of the folder.
 *
 * @throws an error of the file system; the old pair stays installed
 */
export async function replacePair(dir: string, profile: string, pair: Pair): Promise<void> {
  const names = manifestNames(profile);
  const paths = [join(dir, names.manifest), join(dir, names.origin)];
  const old = await Promise.all(paths.map((path) => ifFound(Deno.readFile(path))));
  const pending = pendingPath(dir, profile);
  await writeAtomic(pending, JSON.stringify(pair));
  try {
    await apply(paths, pair);
  } catch (error) {
    // If the old files cannot be restored, the pending pair stays, which is read instead and completed later.
    const restored = await Promise.all(paths.map((path, at) => putBack(path, old[at]))).then(
      () => true,
      ignore("the failure of the replacement is thrown"),
    );
    if (restored) await Deno.remove(pending);
    throw error;
  }
  await Deno.remove(pending);
}

async function putBack(path: string, before: Uint8Array | undefined): Promise<void> {
  if (before) await writeAtomic(path, before);
  else await ifFound(Deno.remove(path));
}

/**
 * Completes replacements that a crash interrupted, and removes leftovers. The caller holds the lock of the
 * folder.
 */
async function settlePairs(dir: string): Promise<void> {
  for await (const { name } of Deno.readDir(dir)) {
    if (TEMPORARY.test(name)) await Deno.remove(join(dir, name));
    const manifest = PENDING.exec(name)?.[1];
    if (manifest === undefined) continue;
    const profile = profileOf(manifest);
    const pair = profile === undefined ? undefined : await readPending(dir, profile);
    if (pair) {
      const names = manifestNames(profile);
      await apply([join(dir, names.manifest), join(dir, names.origin)], pair);
    }
    await Deno.remove(join(dir, name));
  }
}

/**
 * Reads the installed manifest of a profile's image, with its origin.
 *
 * @throws {SbxError} `manifest.not_found`, `manifest.invalid`
 */
export async function readInstalled(dir: string, profile = DEFAULT_IMAGE): Promise<InstalledManifest> {
  const names = manifestNames(profile);
  const path = join(dir, names.manifest);
  const pair = await readPending(dir, profile);
  if (pair) {
    return {
      manifest: parseManifest(pair.manifest, path),
      bytes: new TextEncoder().encode(pair.manifest),
      origin: pair.origin,
    };
  }
  const origin = await Deno.readTextFile(join(dir, names.origin)).then(parseOrigin, () => undefined);
  const hint = "install one that boots: sbx update --assets --manifest <URL>; an older one needs no flag";
  return { ...await readManifest(path, hint), ...(origin && { origin }) };
}

/** Profiles that have a manifest in a folder. */
export async function installedProfiles(dir: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch(() => []);
  const profiles = names.map((name) => profileOf(PENDING.exec(name)?.[1] ?? name));
  return [...new Set(profiles.filter((profile) => profile !== undefined))];
}

/** Profile whose manifest has this name. */
function profileOf(name: string): string | undefined {
  if (name === MANIFEST) return DEFAULT_IMAGE;
  return name.endsWith(`.${MANIFEST}`) ? name.slice(0, -MANIFEST.length - 1) : undefined;
}

function pendingPath(dir: string, profile: string): string {
  return join(dir, `.${manifestNames(profile).manifest}.pending`);
}

async function apply(paths: string[], { manifest, origin }: Pair): Promise<void> {
  await writeAtomic(paths[0], manifest);
  await writeAtomic(paths[1], JSON.stringify(origin, null, 2) + "\n");
}

/** A damaged pending pair was never active: its file is written whole or not at all. */
async function readPending(dir: string, profile: string): Promise<Pair | undefined> {
  const text = await Deno.readTextFile(pendingPath(dir, profile)).catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    const { manifest, origin } = parseJson(text) as Pair;
    parseManifest(manifest, "pending");
    return { manifest, origin: ManifestOrigin.parse(origin) };
  } catch {
    return undefined;
  }
}

function parseOrigin(text: string): ManifestOrigin | undefined {
  try {
    return ManifestOrigin.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}

/** Wait for the lock after which the caller is notified, in `ms`. */
const SILENT_MS = 1000;

/**
 * Changes the installed files, one change at a time: of two updates at once, the second waits, and then finds
 * all files installed. A change that a crash interrupted is completed first.
 *
 * @param what begins the message of an error of the file system, such as "installing files"
 * @param onWait called once if another change takes longer than a second
 */
export async function changeAssets<T>(
  { assetsDir }: Pick<Home, "assetsDir">,
  what: string,
  work: () => Promise<T>,
  onWait?: () => void,
): Promise<T> {
  try {
    await Deno.mkdir(assetsDir, { recursive: true, mode: 0o700 });
    using _lock = await lock(join(assetsDir, ".lock"), onWait);
    await settlePairs(assetsDir);
    return await work();
  } catch (error) {
    throw fileError(error, `${what} in ${assetsDir}`);
  }
}

async function lock(path: string, onWait: () => void = () => {}): Promise<Deno.FsFile> {
  const open = () => Deno.open(path, { write: true, create: true, mode: 0o600 });
  const file = await open();
  if (await lockWithin(file, SILENT_MS)) return file;
  file.close();
  onWait();
  const waiting = await open();
  await waiting.lock(true);
  return waiting;
}
