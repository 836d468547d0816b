/** Images of profiles, built from their packages on this machine. */
import { dirname, join } from "node:path";
import { currentArch } from "../../../lib/base/arch/mod.ts";
import { ifFound, ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { bootAssets, type Profile, recordedPackages } from "../../../lib/config/profile/mod.ts";

/** Builds the profile's image if none has its packages, after a question. @throws {SbxError} `image.*` */
export async function requireImage(profile: Profile, isAgreed: boolean): Promise<void> {
  try {
    await bootAssets(home(), profile, currentArch());
  } catch (error) {
    const isMissing = error instanceof SbxError && ["image.missing", "image.mismatch"].includes(error.code);
    if (!isMissing || !(isAgreed || askToBuild(error.message))) throw error;
    await buildProfileImage(profile);
  }
}

function askToBuild(why: string): boolean {
  if (!Deno.stdin.isTerminal()) return false;
  const answer = prompt(`${why}. Build it now, in about a minute? [Y/n]`);
  return ["", "y", "yes"].includes((answer ?? "n").trim().toLowerCase());
}

/** An image that was built and installed. */
interface BuiltImage {
  profile: string;
  version: string;
}

/**
 * Builds the image of a profile and installs it, with a progress bar. Interrupts end it without a trace. An
 * image with the same packages for the other architecture stays installed.
 *
 * @throws {SbxError} `image.*`, `disk.full`, `assets.*`
 */
export async function buildProfileImage(
  { id, packages, path: file }: Profile,
  arch = currentArch(),
): Promise<BuiltImage> {
  const [image, asset, { home: homeOf }, { Progress }, { VERSION }] = await Promise.all([
    import("../../../lib/publish/image/mod.ts"),
    import("../../../lib/release/asset/mod.ts"),
    import("../../../lib/base/home/mod.ts"),
    import("../../../lib/base/progress/mod.ts"),
    import("../../../lib/base/version/mod.ts"),
  ]);
  const home = homeOf();
  await (await import("../../../lib/home/mod.ts")).useNetworkOf(home);
  const work = join(home.dir, "build");
  await Deno.mkdir(work, { recursive: true, mode: 0o755 }).catch((cause) => {
    throw new SbxError("image.work_folder", `images are built in ${work}, which cannot be made`, {
      cause,
      hint: `remove or rename what is there, and make sure that ${home.dir} can be written`,
    });
  });
  const out = await Deno.makeTempDir({ dir: work, prefix: `${id}-` });
  try {
    // With the installed manifest beside it, a new image gets the next version of the day.
    const { manifest } = asset.manifestNames(id);
    await ifFound(Deno.copyFile(join(home.assetsDir, manifest), join(out, asset.MANIFEST)));
    await asset.linkOtherArches(home, { profile: id, packages: recordedPackages(packages), arch, out });
    const path = await image.withInterrupts(async (signal) => {
      using progress = new Progress([...image.BUILD_STAGES, { name: "assets", weight: 2 }]);
      const path = await image.buildImage({
        arch,
        profile: id,
        packages,
        ...file && { folder: dirname(file) },
        out,
        binaryVersion: VERSION,
        progress,
        signal,
      });
      await asset.installAssets({ manifestUrl: `file://${path}`, home, arch, progress });
      return path;
    });
    return { profile: id, version: (await asset.readManifest(path)).manifest.assets.current };
  } finally {
    await Deno.remove(out, { recursive: true }).catch(ignore("the result of the build counts"));
  }
}
