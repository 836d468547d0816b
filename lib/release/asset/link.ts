import { join } from "node:path";
import { type Arch, ARCHES } from "../../base/arch/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { OBOM } from "./name.ts";
import { resolveAssets } from "./resolve.ts";
import type { ImagePackages } from "./schema.ts";

/** An image that is about to be built. */
export interface NewImage {
  profile: string;
  packages: ImagePackages;
  arch: Arch;
  /** its output folder */
  out: string;
}

/**
 * Links the installed files of a profile's image for the other architectures into the output folder of a new one, so that
 * one manifest describes both. An image of other packages is left out: the new manifest would misstate it.
 */
export async function linkOtherArches(home: Home, { profile, packages, arch, out }: NewImage): Promise<void> {
  for (const other of ARCHES.filter((each) => each !== arch)) {
    const assets = await resolveAssets(home, other, profile).catch(() => undefined);
    if (JSON.stringify(assets?.image?.packages) !== JSON.stringify(packages) || !assets) continue;
    const { kernel, initrd, rootfs, obom } = assets;
    await Deno.mkdir(join(out, other), { mode: 0o755 });
    for (const file of [kernel, initrd, rootfs, ...obom ? [{ ...obom, name: OBOM }] : []]) {
      await Deno.symlink(file.path, join(out, other, file.name));
    }
  }
}
