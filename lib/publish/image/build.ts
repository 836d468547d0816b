/** Builds a guest image from Debian packages, stage by stage. */
import type { Arch } from "../../base/arch/mod.ts";
import { basename, dirname, join, resolve } from "node:path";
import {
  fileError,
  generateManifest,
  LAYER,
  MANIFEST,
  readManifest,
  requireAssetVersion,
} from "../../release/asset/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { blake3File } from "../../base/hash/mod.ts";
import { formatBytes, type ProgressSink, silent, type Stage } from "../../base/progress/mod.ts";
import { archNames, requireRunnable } from "./arch.ts";
import { hasTool, requireTools, run, throwIfInterrupted } from "./command.ts";
import { bundleGuestPrograms, placeDeno } from "./guest.ts";
import { buildInitrd } from "./initrd.ts";
import { buildLayer } from "./layer.ts";
import { ModuleTree, unpackKernel } from "./module.ts";
import { generateObom } from "./obom.ts";
import { addedLines, isAptPackage, type Packages, recordedPackages } from "../../config/profile/mod.ts";
import { installNpm, keyOf, type LockedPackage, requireExact } from "./npm.ts";
import { compilePrograms } from "./own/compile.ts";
import { ownKey, type OwnPackage } from "./own/component.ts";
import { OwnFiles, placeFiles } from "./own/file.ts";
import { installPip } from "./own/pip.ts";
import { ownSources } from "./own/source.ts";
import { debianSources, GuestApt, requireFile } from "./packages.ts";
import { buildRootfs } from "./rootfs.ts";
import { freeBytes } from "../../base/disk/mod.ts";

/** Stages of a build, weighted by their measured duration. */
export const BUILD_STAGES: Stage[] = [
  { name: "guest programs", weight: 2 },
  { name: "npm packages", weight: 4 },
  { name: "kernel", weight: 8 },
  { name: "layer", weight: 3 },
  { name: "rootfs", weight: 24 },
  { name: "hash", weight: 1 },
];

/** Options for building an image. */
export interface BuildOptions {
  arch: Arch;
  /** id of the profile that the image belongs to */
  profile: string;
  /** packages of the profile, for the rootfs */
  packages: Packages;
  /** folder of the profile, with the files that its packages name; absent for a built-in one */
  folder?: string;
  /** output folder for `<arch>/…`, `manifest.json` and `B3SUMS` */
  out: string;
  /** version of the assets; default is the next one */
  version?: string;
  /** version of sbx the image is for */
  binaryVersion: string;
  progress?: ProgressSink;
  /** stops the build and removes its partial output */
  signal?: AbortSignal;
}

/**
 * Builds kernel, initrd, rootfs and OBOM, and their manifest (docs/design/contracts/10-release.md §10). Works
 * in a folder beside `out`, so that `out` holds either a whole new image or its old content.
 *
 * @returns path of the manifest
 * @throws {SbxError} `image.*`, `disk.full`, `assets.*`
 */
export async function buildImage(options: BuildOptions): Promise<string> {
  const { packages, arch } = options;
  requireExact(packages.npm);
  const bad = packages.apt.find((name) => !isAptPackage(name));
  if (bad !== undefined) {
    throw new SbxError("image.package.invalid", `invalid Debian package name "${bad}"`, {
      hint: "correct packages.apt of the profile",
    });
  }
  if (options.version !== undefined) requireAssetVersion(options.version);
  await requireRunnable(arch);
  await requireTools();
  const out = resolve(options.out);
  const work = join(dirname(out), `.${basename(out)}.${crypto.randomUUID()}.tmp`);
  await requireOwn(out, options.profile);
  const existed = await Deno.stat(out).then(() => true, () => false);
  try {
    await Deno.mkdir(out, { recursive: true });
    await requireSpace(out, BUILD_BYTES + (packages.script ? COPY_BYTES : 0));
    // The helper user of mmdebstrap needs access.
    await Deno.mkdir(work, { mode: 0o755 });
    return await publish(await buildIn(work, options), out, options);
  } catch (error) {
    if (!existed) await Deno.remove(out).catch(ignore("the failure of the build is thrown"));
    throw fileError(error, `building an image in ${out}`);
  } finally {
    await removeTree(work);
  }
}

/**
 * Requires that a folder has no image of another profile, since its manifest describes
 * one image for every architecture.
 */
async function requireOwn(out: string, profile: string): Promise<void> {
  const old = await readManifest(join(out, MANIFEST)).then(
    ({ manifest }) => manifest.assets,
    () => undefined,
  );
  const other = old?.releases[old.current].image?.profile ?? profile;
  if (other === profile) return;
  throw new SbxError("image.out.taken", `${out} has the image of profile "${other}"`, {
    hint: "give another output folder, or remove this one",
  });
}

/** A built image. */
interface Built {
  /** folder with its files */
  dir: string;
  npm: LockedPackage[];
  own: OwnPackage[];
}

/** Builds into `<work>/out`. */
async function buildIn(work: string, options: BuildOptions): Promise<Built> {
  const { arch, packages, binaryVersion, progress = silent, signal } = options;
  const folder = async (name: string) => {
    await Deno.mkdir(join(work, name));
    return join(work, name);
  };
  const built = await folder("out");
  progress.stage("guest programs");
  const guestDir = await folder("guest");
  await bundleGuestPrograms(guestDir, signal);
  const deno = join(work, "deno");
  await placeDeno(arch, deno, guestDir, signal);

  progress.stage("npm packages");
  const overlay = await folder("overlay");
  const npm = await installNpm(packages, arch, { work: await folder("npm"), overlay, signal });
  const own = new OwnFiles(options.folder, await folder("files"));
  const pip = await installPip(packages, arch, own, { work: await folder("pip"), overlay, signal });
  const more = await ownSources(packages, arch, own, { work: await folder("sources"), overlay, signal });
  const files = await placeFiles(packages, own, overlay);
  const script = packages.script &&
    { path: await own.copy(packages.script), name: packages.script.file };

  progress.stage("kernel");
  const sources = await debianSources(arch, packages.suite, signal);
  const apt = await GuestApt.open(await folder("apt"), arch, sources, signal);
  const tree = await apt.unpack([
    await apt.dependency(archNames(arch).kernelPackage, /^linux-image-\d/),
    "busybox-static",
  ]);
  const modules = await ModuleTree.open(await onlyEntry(await requireFile(tree, "lib/modules")), signal);
  const image = await Deno.readFile(join(tree, "boot", `vmlinuz-${modules.version}`));
  await Deno.writeFile(join(built, "vmlinuz"), await unpackKernel(image, signal), { mode: 0o644 });
  const busybox = await Deno.readFile(await requireFile(tree, "bin/busybox"));
  await Deno.writeFile(join(built, "initrd.img"), await buildInitrd(busybox, modules), { mode: 0o644 });

  progress.stage("layer");
  const layer = await buildLayer({ arch, apt, modules, deno, guestDir }, await folder("layer"), signal);
  await Deno.rename(layer.path, join(built, LAYER));
  await Deno.chmod(join(built, LAYER), 0o644);

  progress.stage("rootfs");
  const places = { work: await folder("compile"), overlay, signal };
  const compiled = await compilePrograms(packages, { arch, sources, own }, places);
  const parts = {
    arch,
    suite: packages.suite,
    packages: [...packages.apt, ...more.names],
    sources: [...sources, ...more.sources],
    overlay,
    script,
  };
  const rootfs = await buildRootfs(parts, await folder("rootfs"), signal);
  await Deno.rename(rootfs.path, join(built, "rootfs.erofs"));
  await Deno.chmod(join(built, "rootfs.erofs"), 0o644);
  const { hash: rootfsHash } = await blake3File(join(built, "rootfs.erofs"));
  const { status, licenses } = rootfs;
  const ownPackages = [...more.packages, ...pip, ...compiled];
  const obom = generateObom({
    arch,
    suite: packages.suite,
    generatorVersion: binaryVersion,
    rootfsHash,
    kernelVersion: modules.version,
    status: withPackages(status, layer.status),
    licenses: `${licenses}\n${layer.licenses}`,
    npm,
    own: ownPackages,
    files: [...files, ...packages.script ? [{ name: "script", sha256: packages.script.sha256 }] : []],
    added: addedLines(packages),
  });
  await Deno.writeTextFile(join(built, "obom.cdx.json"), obom, { mode: 0o644 });
  throwIfInterrupted(signal);
  return { dir: built, npm, own: ownPackages };
}

/** The packages of both, of which the first has the same package in its own version. */
function withPackages(status: string, more: string): string {
  const nameOf = (record: string) => /^Package: (.*)$/m.exec(record)?.[1];
  const known = new Set(status.split("\n\n").map(nameOf));
  const added = more.split("\n\n").filter((record) => !known.has(nameOf(record)));
  return [status.trimEnd(), ...added].join("\n\n") + "\n";
}

/** Replaces the old files with the new ones; restores the old ones if the manifest cannot be generated. */
async function publish({ dir: built, npm, own }: Built, out: string, options: BuildOptions): Promise<string> {
  const { arch, version, binaryVersion, progress, profile } = options;
  const npm_lock = Object.fromEntries(npm.map((each) => [keyOf(each), each.integrity]));
  const lock = Object.fromEntries(own.map((each) => [ownKey(each), each.hash]));
  const packages = recordedPackages(options.packages);
  const target = join(out, arch);
  await Deno.chmod(built, 0o755);
  const old = await moveAside(target);
  try {
    await Deno.rename(built, target);
    const path = await generateManifest(out, {
      version,
      binaryVersion,
      progress,
      image: { profile, packages, npm_lock, ...own.length > 0 && { lock } },
    });
    await old.discard();
    return path;
  } catch (error) {
    await old.restore();
    throw error;
  }
}

async function onlyEntry(dir: string): Promise<string> {
  const entries = await Array.fromAsync(Deno.readDir(dir));
  if (entries.length === 1) return join(dir, entries[0].name);
  throw new SbxError("image.kernel.invalid", "the kernel package does not contain the modules of one kernel");
}

/** Peak disk use of a build, in `bytes`: packages, their tree, and the image, with half as much to spare. */
const BUILD_BYTES = 2.5e9;
/** Size of the copy of the tree that a script changes. */
const COPY_BYTES = 1.5e9;

/** @throws {SbxError} `disk.full`: `dir` has too little free space for a build */
export async function requireSpace(dir: string, needed = BUILD_BYTES): Promise<void> {
  const free = await freeBytes(dir);
  if (free >= needed) return;
  throw new SbxError(
    "disk.full",
    `${dir} has ${formatBytes(free)} free, and an image build needs ${formatBytes(needed)}`,
    { hint: "free some space, or give another output folder" },
  );
}

/**
 * Removes a build's folder. After a kill, files of mmdebstrap there belong to root and may contain mounts of
 * the host's /dev or /proc: nothing is removed through a mount.
 */
async function removeTree(dir: string): Promise<void> {
  const mounts = await Deno.readTextFile("/proc/self/mountinfo").catch(() => "");
  if (mounts.split("\n").some((line) => line.split(" ")[4]?.startsWith(`${dir}/`))) {
    throw new SbxError(
      "image.cleanup_failed",
      `${dir} was not removed: it still contains mounts`,
      {
        hint: `unmount what findmnt shows below it (umount -R), then remove it`,
      },
    );
  }
  try {
    await Deno.remove(dir, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    if (!(error instanceof Deno.errors.PermissionDenied) || !await hasTool("sudo")) throw error;
    await run(["sudo", "rm", "-rf", "--one-file-system", dir], { doing: `removing ${dir}` });
  }
}

/** A folder moved out of the way. */
interface MovedFolder {
  /** replaces the current content of the folder's path with the old folder */
  restore(): Promise<void>;
  /** removes the old folder */
  discard(): Promise<void>;
}

/** Moves `dir`, if it exists, to a name beside it. */
async function moveAside(dir: string): Promise<MovedFolder> {
  const aside = `${dir}.${crypto.randomUUID()}.tmp`;
  const isMoved = await Deno.rename(dir, aside).then(() => true, (error) => {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  });
  const remove = (path: string) =>
    Deno.remove(path, { recursive: true }).catch(
      ignore("a folder that stays fails the rename, or is a leftover"),
    );
  return {
    async restore() {
      await remove(dir);
      if (isMoved) await Deno.rename(aside, dir);
    },
    async discard() {
      if (isMoved) await remove(aside);
    },
  };
}
