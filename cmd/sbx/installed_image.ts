import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import type { Profile } from "../../lib/config/profile/mod.ts";

/** An image that was built and installed. */
export interface BuiltImage {
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
  { id, packages }: Profile,
  arch = currentArch(),
): Promise<BuiltImage> {
  const [image, asset, { home: homeOf }, { Progress }, { VERSION }] = await Promise.all([
    import("../../lib/publish/image/mod.ts"),
    import("../../lib/release/asset/mod.ts"),
    import("../../lib/base/home/mod.ts"),
    import("../../lib/base/progress/mod.ts"),
    import("../../lib/base/version/mod.ts"),
  ]);
  const home = homeOf();
  await (await import("../../lib/home/mod.ts")).useNetworkOf(home);
  const work = join(home.dir, "build");
  await Deno.mkdir(work, { recursive: true, mode: 0o755 });
  const out = await Deno.makeTempDir({ dir: work, prefix: `${id}-` });
  try {
    // With the installed manifest beside it, a new image gets the next version of the day.
    const { manifest } = asset.manifestNames(id);
    await Deno.copyFile(join(home.assetsDir, manifest), join(out, asset.MANIFEST)).catch(() => {});
    await asset.linkOtherArches(home, { profile: id, packages, arch, out });
    const path = await image.withInterrupts(async (signal) => {
      using progress = new Progress([...image.BUILD_STAGES, { name: "assets", weight: 2 }]);
      const path = await image.buildImage({
        arch,
        profile: id,
        packages,
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
    await Deno.remove(out, { recursive: true }).catch(() => {});
  }
}
