/** The host's CA in containers: by variables, and in the bundles and Java's stores that an image has. */
import { mount, unmount } from "../../../ffi/libc/machine.ts";
import { openIn } from "../../../ffi/libc/beneath.ts";
import { STORE_MAX, storeOf, storePaths, withTrusted } from "../../../lib/machine/guest/java/mod.ts";
import { mountsOf } from "../../../lib/machine/guest/mounts/mod.ts";
import {
  CA_PATH,
  CONTAINER_APT_PATH,
  CONTAINER_FILES,
  CONTAINER_JAVA,
  CONTAINER_VARIABLES,
  TRUST_BUNDLES,
} from "../../../lib/machine/guest/wire/mod.ts";

/** Folder of a lower layer for each container, and the store for Java in steps of builds. */
const LAYERS = "/run/sbx/containers", JAVA_STORE = "/run/sbx/trust.jks";
/** Folder of a container's changes in podman's storage, and buildah's: path of the storage, id of a layer. */
const STORED = /^(\/.+)\/overlay\/([0-9a-f]{64})\/diff$/;
/**
 * Age in `ms` from which a layer that no container has is removed: a younger one may be about to be mounted.
 */
const UNUSED_MS = 60_000;
/** Longest options of mount(2), in `bytes`. */
const OPTIONS_MAX = 4000;

/** The parts of `config.json` (OCI runtime specification) that are used here. */
interface Spec {
  process?: Process;
  root?: { path: string };
  linux?: { cgroupsPath?: string };
  mounts?: { destination: string; type?: string; source?: string; options?: string[] }[];
}

interface Process {
  env?: string[];
}

/** Adds the CA to the container of a bundle. @param from paths of the guest's files, for tests */
export async function trustContainer(
  bundle: string,
  from = { ca: CA_PATH, bundle: TRUST_BUNDLES[0], javaStore: JAVA_STORE },
): Promise<void> {
  const path = `${bundle}/config.json`;
  const spec: Spec = JSON.parse(Deno.readTextFileSync(path));
  const place = spec.root && Deno.realPathSync(below(bundle, spec.root.path));
  const mounts = Deno.readTextFileSync("/proc/self/mountinfo");
  const overlay = place === undefined ? undefined : overlayAt(place, mounts);
  const isStep = overlay !== undefined && isShared(place!, overlay, mounts);
  const isNamed = isStep && nameStep(spec, overlay);
  const hasOwnDev = spec.mounts?.some(({ destination, type }) => destination === "/dev" && type === "tmpfs");
  if (hasOwnDev && spec.process) {
    const options = ["bind", "ro", "nosuid", "nodev", "noexec"];
    const files: Record<string, string> = {
      [CONTAINER_FILES.bundle]: from.bundle,
      [CONTAINER_FILES.apt]: CONTAINER_APT_PATH,
    };
    addVariables(spec.process);
    if (isStep) {
      await writeJavaStore(from.bundle, from.javaStore);
      files[CONTAINER_JAVA.path] = from.javaStore;
      addJavaOption(spec.process);
    }
    for (const [destination, source] of Object.entries(files)) {
      spec.mounts!.push({ destination, type: "bind", source, options });
    }
  }
  if (hasOwnDev && spec.process || isNamed) writeOver(path, spec);
  if (overlay === undefined || isStep) return;
  const home = spec.process?.env?.find((each) => each.startsWith("JAVA_HOME="))?.slice("JAVA_HOME=".length);
  await addLayer(place!, overlay, mounts, Deno.readTextFileSync(from.ca), home);
}

/**
 * Gives a step of buildah a cgroup with its container's id, by which its programs are known
 * (lib/machine/guest/container). Its runtime would choose one of a name that leads nowhere.
 *
 * @param overlay options of the step's root
 */
export function nameStep(spec: Pick<Spec, "linux">, overlay: string): boolean {
  const [, storage, layer] = STORED.exec(upperOf(overlay) ?? "") ?? [];
  if (layer === undefined || !spec.linux || spec.linux.cgroupsPath) return false;
  const id = containerOf(storage, layer);
  if (id === undefined) return false;
  spec.linux.cgroupsPath = `/buildah/buildah-${id}`;
  return true;
}

function containerOf(storage: string, layer: string): string | undefined {
  // podman keeps the containers of builds in the second list.
  for (const name of ["containers", "volatile-containers"]) {
    try {
      const text = Deno.readTextFileSync(`${storage}/overlay-containers/${name}.json`);
      const id = JSON.parse(text).find((each: { layer?: unknown }) => each.layer === layer)?.id;
      if (typeof id === "string") return id;
    } catch {
      // The step has the CA without a name.
    }
  }
  return undefined;
}

/** The store is made with the first step, and when the guest's bundle changed. */
async function writeJavaStore(bundle: string, path: string): Promise<void> {
  const [from, to] = [Deno.statSync(bundle), lstat(path)];
  if (to?.isFile && to.mtime! >= from.mtime!) return;
  const fresh = Deno.makeTempFileSync({ dir: folderOf(path), prefix: ".sbx-" });
  Deno.writeFileSync(fresh, await storeOf(Deno.readTextFileSync(bundle)));
  Deno.chmodSync(fresh, 0o644);
  Deno.renameSync(fresh, path);
}

/** An image's own store stays. */
export function addJavaOption({ env = [] }: Process): void {
  const { variable, option, path } = CONTAINER_JAVA;
  const at = env.findIndex((each) => each.startsWith(`${variable}=`));
  if (at < 0) env.push(`${variable}=${option}${path}`);
  else if (!env[at].includes(option)) env[at] += ` ${option}${path}`;
}

/** Adds the variables to a program that joins a container: `exec` does not read the container's own. */
export function trustProcess(path: string): void {
  const process: Process = JSON.parse(Deno.readTextFileSync(path));
  addVariables(process);
  writeOver(path, process);
}

/** The image's own values stay. */
function addVariables(process: Process): void {
  const env = process.env ??= [];
  for (const [name, value] of CONTAINER_VARIABLES) {
    if (!env.some((each) => each.startsWith(`${name}=`))) env.push(`${name}=${value}`);
  }
}

/** An engine may have its file in /tmp, where another user can put a link at any name that is known. */
function writeOver(path: string, content: unknown): void {
  const fresh = Deno.makeTempFileSync({ dir: folderOf(path), prefix: ".sbx-" });
  Deno.writeTextFileSync(fresh, JSON.stringify(content));
  Deno.renameSync(fresh, path);
}

/**
 * Puts a layer with the image's bundles and Java's stores, with the CA, below the files that the container
 * writes: programs that read no variable trust the CA, and a program that replaces a bundle, such as
 * update-ca-certificates, replaces the image's own.
 */
async function addLayer(
  place: string,
  overlay: string,
  mounts: string,
  ca: string,
  javaHome?: string,
): Promise<void> {
  removeUnused(mounts);
  const layer = Deno.makeTempDirSync({ dir: LAYERS });
  const isChanged = await fillLayer(layer, place, ca, javaHome);
  const options = withLower(overlay, layer);
  if (!isChanged || options === undefined) return Deno.removeSync(layer, { recursive: true });
  unmount(place);
  try {
    mountAgain(place, options);
  } catch (error) {
    mountAgain(place, overlay);
    throw error;
  }
}

/**
 * Mounts an overlay whose container has not run yet. podman has volatile ones for containers of `run --rm`:
 * the kernel leaves a mark that forbids another mount, until it is removed
 * (Documentation/filesystems/overlayfs.rst, "Volatile mount").
 */
function mountAgain(place: string, options: string): void {
  const mark = volatileMark(options);
  if (mark !== undefined && exists(mark)) Deno.removeSync(mark, { recursive: true });
  mount("overlay", place, options);
}

/**
 * Where the kernel has its mark if an overlay is volatile, which kernels write as
 * `volatile` and as `fsync=volatile`.
 */
export function volatileMark(options: string): string | undefined {
  const work = /(?:^|,)workdir=([^,]+)/.exec(options)?.[1];
  return work?.startsWith("/") ? `${work}/work/incompat/volatile` : undefined;
}

/**
 * Copies the bundles and Java's stores of an image into a layer, with the CA.
 *
 * @param root of the image, without a link
 * @returns whether the image has any
 */
export async function fillLayer(
  layer: string,
  root: string,
  ca: string,
  javaHome?: string,
): Promise<boolean> {
  const withCa = (bytes: Uint8Array) => {
    const text = new TextDecoder().decode(bytes);
    return new TextEncoder().encode(text.includes(ca) ? text : `${text.trimEnd()}\n${ca}`);
  };
  let isChanged = false;
  for (const path of TRUST_BUNDLES) {
    if (await copyChanged(root, path, layer, withCa)) isChanged = true;
  }
  for (const path of storePaths((folder) => namesIn(root, folder), javaHome)) {
    if (await copyChanged(root, path, layer, (bytes) => withTrusted(bytes, ca))) isChanged = true;
  }
  return isChanged;
}

function namesIn(root: string, folder: string): string[] {
  const inside = resolveIn(root, folder);
  if (inside === undefined || !Deno.lstatSync(root + inside).isDirectory) return [];
  return [...Deno.readDirSync(root + inside)].map(({ name }) => name);
}

/** Removes the layers of containers that are gone. */
function removeUnused(mounts: string): void {
  Deno.mkdirSync(LAYERS, { recursive: true, mode: 0o700 });
  for (const { name } of Deno.readDirSync(LAYERS)) {
    const layer = `${LAYERS}/${name}`;
    const age = Date.now() - (lstat(layer)?.birthtime ?? new Date()).getTime();
    if (age > UNUSED_MS && !mounts.includes(layer)) Deno.removeSync(layer, { recursive: true });
  }
}

/**
 * Options of the overlay that is mounted last at a place; `undefined` for another file
 * system, or where they are not whole.
 */
export function overlayAt(place: string, mountinfo: string): string | undefined {
  const { type, options } = mountsOf(mountinfo).findLast(({ point }) => point === place) ?? {};
  if (type !== "overlay" || options === undefined) return undefined;
  // Of folders with odd names, and of folders relative to one of the engine, the kernel does not say enough.
  if (/\\/.test(options)) return undefined;
  return options.split(",").filter((each) =>
    /^(lowerdir|upperdir|workdir|index|metacopy|userxattr|volatile|fsync)\b/.test(each)
  ).join();
}

/**
 * Where BuildKit has the root of one step, beside a mount of its own, which it does
 * not use before the step's end.
 */
const BUILDKIT_ROOT = /\/buildkit\/executor\/[^/]+\/rootfs$/;

/**
 * Whether an overlay is mounted at another place too, through which its engine goes on to read and write.
 * buildah does: it copies files between the steps of a container, and would not see a step's changes by
 * another overlay of the same files.
 */
export function isShared(place: string, overlay: string, mountinfo: string): boolean {
  const upper = upperOf(overlay);
  return upper !== undefined && !BUILDKIT_ROOT.test(place) &&
    mountsOf(mountinfo).some(({ point, options }) => point !== place && upperOf(options) === upper);
}

function upperOf(options: string): string | undefined {
  return /(?:^|,)upperdir=([^,]+)/.exec(options)?.[1];
}

/** The options with another lower layer, above the others. */
export function withLower(options: string, layer: string): string | undefined {
  const lower = /(?:^|,)lowerdir=([^,]+)/.exec(options)?.[1];
  if (!lower || !options.includes("upperdir=")) return undefined;
  if (lower.split(":").some((each) => each !== "" && !each.startsWith("/"))) return undefined;
  const longer = options.replace(`lowerdir=${lower}`, () => `lowerdir=${layer}:${lower}`);
  return longer.length > OPTIONS_MAX ? undefined : longer;
}

/**
 * Copies a file of an image into a layer with another content, and its folders as they are.
 *
 * @returns whether the image has the file, and it changes
 */
async function copyChanged(
  root: string,
  path: string,
  layer: string,
  change: (bytes: Uint8Array) => Uint8Array | undefined | Promise<Uint8Array | undefined>,
): Promise<boolean> {
  const inside = resolveIn(root, path);
  if (inside === undefined) return false;
  const from = Deno.lstatSync(root + inside);
  const to = layer + inside;
  // Two paths may lead to one file.
  if (!from.isFile || from.size > STORE_MAX || exists(to)) return false;
  const changed = await change(Deno.readFileSync(root + inside));
  if (changed === undefined) return false;
  copyFolders(root, folderOf(inside), layer);
  Deno.writeFileSync(to, changed);
  copyOwner(from, to);
  return true;
}

/** A layer's folders hide the owner and mode of the same ones below it. */
function copyFolders(root: string, inside: string, layer: string): void {
  if (inside !== "/") copyFolders(root, folderOf(inside), layer);
  const to = layer + inside;
  if (inside !== "/" && !exists(to)) Deno.mkdirSync(to);
  copyOwner(Deno.lstatSync(root + inside), to);
}

function copyOwner({ uid, gid, mode, atime, mtime }: Deno.FileInfo, to: string): void {
  Deno.chownSync(to, uid, gid);
  Deno.chmodSync(to, mode! & 0o7777);
  if (atime && mtime) Deno.utimeSync(to, atime, mtime);
}

/** A path of an image without links, none of which leads out of its root; `undefined`: it leads nowhere. */
export function resolveIn(root: string, path: string): string | undefined {
  try {
    using file = openIn(root, path);
    const found = Deno.readLinkSync(file.path);
    return found.startsWith(`${root}/`) ? found.slice(root.length) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A path that may be relative to a folder. The module of Node for paths takes an
 * emulated guest a quarter of a second.
 */
function below(folder: string, path: string): string {
  return path.startsWith("/") ? path : `${folder}/${path}`;
}

/** Folder of a path. */
function folderOf(path: string): string {
  const end = path.lastIndexOf("/");
  return end < 0 ? "." : path.slice(0, end) || "/";
}

function lstat(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch {
    return undefined;
  }
}

function exists(path: string): boolean {
  return lstat(path) !== undefined;
}
