/** Environments of a home: one folder each, named by its content, and the references that lead to them. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { z } from "zod";
import type { Arch } from "../../base/arch/mod.ts";
import { asSbxError, ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { type Home, lockWithin, removeFolder, writeAtomic } from "../../base/home/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { log } from "../../base/log/mod.ts";
import { type AssetFile, installedName, OBOM, ROOTFS } from "../asset/mod.ts";
import { Environment, ENVIRONMENT_KEY, EnvironmentName } from "./schema.ts";

/** Folder of a home with its environments. */
type Place = Pick<Home, "dir">;

/** Version of the images that are made: another one makes every environment again. */
const FORMAT = 2;
const RECORD = "environment.json";
/** Begin of the name of a folder in which an environment is made. */
const WORK = ".work-";
/** Time in which a removal waits for environments in the making, in `ms`. */
const BUSY_MS = 2000;

/** Folder of all environments. */
export function environmentsDir({ dir }: Place): string {
  return join(dir, "environments");
}

/** Folder of the layers, by digest, that environments share. */
export function layersDir(home: Place): string {
  return join(environmentsDir(home), "layers");
}

/** Path of a layer, or of a manifest or configuration. */
export function blobPath(home: Place, digest: string): string {
  return join(layersDir(home), ...digest.split(":"));
}

/** Key of the environment that an image's manifest makes. */
export function environmentKey(digest: string, arch: Arch): string {
  return sha256(`sbx.environment ${FORMAT} ${arch} ${digest}`).slice(0, 32);
}

/** Whether an environment is made as this version makes one: others boot, and take no other's place. */
export function isCurrentFormat(
  { key, digest, arch }: Pick<Environment, "key" | "digest" | "arch">,
): boolean {
  return key === environmentKey(digest, arch);
}

/** Lists the environments, the newest first. A damaged one is left out, with a warning. */
export async function listEnvironments(home: Place): Promise<Environment[]> {
  const names = await namesIn(environmentsDir(home));
  const all = await Promise.all(
    names.filter((name) => ENVIRONMENT_KEY.test(name)).map((key) =>
      getEnvironment(home, key).catch((error) => {
        log.warn(asSbxError(error, "reading an environment").message);
        return undefined;
      })
    ),
  );
  return all.filter((each) => each !== undefined).sort((a, b) => b.created_at.localeCompare(a.created_at));
}

/** @returns undefined: the home does not have it. @throws {SbxError} `environment.damaged` */
export async function getEnvironment(home: Place, key: string): Promise<Environment | undefined> {
  return await readRecord(join(environmentsDir(home), key, RECORD), Environment);
}

/** The environment that a reference led to when it was last resolved. @param reference canonical */
export async function findEnvironment(
  home: Place,
  reference: string,
  arch: Arch,
): Promise<Environment | undefined> {
  const name = await readRecord(namePath(home, reference, arch), EnvironmentName);
  return name && await getEnvironment(home, name.key);
}

/** References by the key of the environment that they lead to. */
export async function environmentNames(home: Place): Promise<EnvironmentName[]> {
  const dir = namesDir(home);
  const names = await Promise.all(
    (await namesIn(dir)).filter((name) => name.endsWith(".json")).map((name) =>
      readRecord(join(dir, name), EnvironmentName).catch(ignore("a damaged name is resolved again"))
    ),
  );
  return names.filter((name) => name !== undefined)
    .sort((a, b) => a.reference < b.reference ? -1 : 1);
}

/**
 * Begin of the name under which a home knows the environment of a build. A reference that
 * a person writes has a registry.
 */
const BUILD = "build:";

/** Name of the environment that a build made, by the key of the build. */
export function buildName(key: string): string {
  return BUILD + key;
}

/** Tests whether a name is one of a build, and no reference. */
export function isBuildName(name: string): boolean {
  return name.startsWith(BUILD);
}

/** Notes where a reference leads. */
export async function nameEnvironment(home: Place, name: Omit<EnvironmentName, "schema" | "resolved_at">) {
  await Deno.mkdir(namesDir(home), { recursive: true, mode: 0o700 });
  const record: EnvironmentName = {
    schema: "sbx.environment_name.v1",
    ...name,
    resolved_at: new Date().toISOString(),
  };
  await writeAtomic(namePath(home, name.reference, name.arch), JSON.stringify(record) + "\n");
}

/** Files of an environment that a VM boots. */
export function environmentFiles(
  home: Place,
  { key, rootfs, obom }: Environment,
): Record<"rootfs" | "obom", AssetFile> {
  const file = (name: string, { hash, size }: { hash: string; size: number }): AssetFile => ({
    name,
    path: join(environmentsDir(home), key, installedName(name, hash)),
    hash,
    size,
  });
  return { rootfs: file(ROOTFS, rootfs), obom: file(OBOM, obom) };
}

/** Folder for making an environment in, which its maker removes. */
export async function makeWorkFolder(home: Place): Promise<string> {
  await Deno.mkdir(environmentsDir(home), { recursive: true, mode: 0o700 });
  return await Deno.makeTempDir({ dir: environmentsDir(home), prefix: WORK });
}

/**
 * Installs an environment at once.
 *
 * @param out folder with the files `rootfs.erofs` and `obom.cdx.json`, which becomes the environment's
 */
export async function installEnvironment(home: Place, out: string, environment: Environment): Promise<void> {
  const { rootfs, obom, key } = environment;
  await Deno.rename(join(out, ROOTFS), join(out, installedName(ROOTFS, rootfs.hash)));
  await Deno.rename(join(out, OBOM), join(out, installedName(OBOM, obom.hash)));
  await writeAtomic(join(out, RECORD), JSON.stringify(environment, null, 2) + "\n");
  const target = join(environmentsDir(home), key);
  // A folder without a readable record is damaged.
  await removeFolder(target);
  await Deno.rename(out, target);
}

/** Notes in the record of an environment that a signature of its image was verified. */
export async function noteSignature(
  home: Place,
  environment: Environment,
  signature: NonNullable<Environment["provenance"]["signatures"]>[number],
): Promise<Environment> {
  const { provenance, key } = environment;
  const others = (provenance.signatures ?? []).filter((each) =>
    each.repository !== signature.repository || each.key !== signature.key
  );
  const noted = { ...environment, provenance: { ...provenance, signatures: [...others, signature] } };
  await writeAtomic(join(environmentsDir(home), key, RECORD), JSON.stringify(noted, null, 2) + "\n");
  return noted;
}

/** Runs work during which no other process removes environments, layers or folders of makers. */
export async function keepingEnvironments<T>(home: Place, work: () => Promise<T>): Promise<T> {
  await Deno.mkdir(environmentsDir(home), { recursive: true, mode: 0o700 });
  using lock = await openLock(join(environmentsDir(home), ".lock"));
  await lock.lock(false);
  return await work();
}

/**
 * Waits for a removal under way, and requires that it has left an environment.
 *
 * @throws {SbxError} `image.missing` (412)
 */
export async function requireKept(
  home: Place,
  { key, reference }: Pick<Environment, "key" | "reference">,
): Promise<void> {
  const kept = await keepingEnvironments(home, () => getEnvironment(home, key));
  if (kept) return;
  throw new SbxError("image.missing", `the image ${reference} was removed meanwhile`, {
    hint: `pull it, and try again: sbx image pull ${reference}`,
  });
}

/**
 * Runs work on one environment, which no other process makes meanwhile.
 *
 * @param onWait called when another process makes the same one
 */
export async function holdingEnvironment<T>(
  home: Place,
  key: string,
  work: () => Promise<T>,
  onWait: () => void = () => {},
): Promise<T> {
  const path = join(environmentsDir(home), `.${key}.lock`);
  const own = await openLock(path);
  if (await lockWithin(own, BUSY_MS)) {
    using _own = own;
    return await work();
  }
  own.close();
  onWait();
  using waiting = await openLock(path);
  await waiting.lock(true);
  return await work();
}

/** Result of a removal. */
export interface FreedEnvironments {
  /** references or digests of the environments that were removed */
  environments: string[];
  /** on the disk, in `bytes` */
  bytes: number;
}

/**
 * Removes environments, and the layers, names and leftovers that no other one needs.
 *
 * @param isWanted whether an environment stays
 * @param isUsed whether a VM has the environment of a key, which stays although its record is damaged
 * @param isDry only says which would go
 * @throws {SbxError} `environment.busy` (409): one is being made
 */
export async function removeEnvironments(
  home: Place,
  isWanted: (environment: Environment) => boolean,
  isUsed: (key: string) => boolean = () => false,
  isDry = false,
): Promise<FreedEnvironments> {
  const dir = environmentsDir(home);
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  const lock = await openLock(join(dir, ".lock"));
  if (!await lockWithin(lock, BUSY_MS)) {
    lock.close();
    throw new SbxError("environment.busy", "an image is being pulled or made", {
      hint: "try again when it is done",
    });
  }
  using _lock = lock;
  const all = await listEnvironments(home);
  const [kept, removed] = [all.filter(isWanted), all.filter((each) => !isWanted(each))];
  const keys = new Set(kept.map(({ key }) => key));
  const blobs = new Set(
    kept.flatMap((
      { provenance: { layers, config_digest } },
    ) => [config_digest, ...layers.map(({ digest }) => digest)])
      .map((digest) => digest.replace("sha256:", "")),
  );
  let bytes = 0;
  const remove = async (path: string) => {
    bytes += await diskBytes(path);
    if (!isDry) await ifFound(Deno.remove(path, { recursive: true }));
  };
  // The names first: none leads to an environment that is half removed.
  for (const { reference, arch, key } of await environmentNames(home)) {
    if (!keys.has(key)) await remove(namePath(home, reference, arch));
  }
  for (const name of await namesIn(dir)) {
    const isEnvironment = ENVIRONMENT_KEY.test(name) && !keys.has(name) && !isUsed(name);
    if (isEnvironment || name.startsWith(WORK) || /^\.[0-9a-f]{32}\.lock$/.test(name)) {
      await remove(join(dir, name));
    }
  }
  for (const name of await namesIn(join(layersDir(home), "sha256"))) {
    if (!blobs.has(name)) await remove(join(layersDir(home), "sha256", name));
  }
  return { environments: removed.map(({ reference }) => reference), bytes };
}

/** `bytes` on the disk of a file, or of a folder's files. */
export async function diskBytes(path: string): Promise<number> {
  const info = await Deno.lstat(path).catch(() => undefined);
  if (!info) return 0;
  if (!info.isDirectory) return info.blocks === null ? info.size : info.blocks * 512;
  const names = await namesIn(path);
  return (await Promise.all(names.map((name) => diskBytes(join(path, name))))).reduce(
    (sum, each) => sum + each,
    0,
  );
}

async function openLock(path: string): Promise<Deno.FsFile> {
  return await Deno.open(path, { write: true, create: true, mode: 0o600 });
}

async function namesIn(dir: string): Promise<string[]> {
  return (await ifFound(Array.fromAsync(Deno.readDir(dir), ({ name }) => name)) ?? []).sort();
}

function namesDir(home: Place): string {
  return join(environmentsDir(home), "names");
}

function namePath(home: Place, reference: string, arch: Arch): string {
  return join(namesDir(home), `${sha256(`${arch} ${reference}`).slice(0, 32)}.json`);
}

async function readRecord<S extends z.ZodType>(path: string, schema: S): Promise<z.output<S> | undefined> {
  const text = await ifFound(Deno.readTextFile(path));
  if (text === undefined) return undefined;
  try {
    return schema.parse(parseJson(text));
  } catch (cause) {
    throw new SbxError("environment.damaged", `${path} is damaged`, {
      cause,
      hint: "remove its folder, and pull the image again: sbx image pull REFERENCE",
    });
  }
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
