/** Images on a home's disk: small files, but for that installed as real ones are. */
import { join } from "node:path";
import { generateManifest, type ImageRecord, installAssets } from "../../lib/release/asset/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../lib/base/home/mod.ts";
import { bootAssets, loadProfile } from "../../lib/config/profile/mod.ts";

/** A home whose images are installed, and whose profiles are written, by their packages. */
export class InstalledImages implements AsyncDisposable {
  private constructor(readonly home: Home) {}

  static async make(): Promise<InstalledImages> {
    const dir = await Deno.makeTempDir();
    return new InstalledImages(homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined }));
  }

  /**
   * Installs an image; without packages one whose manifest does not say what is in it, as older ones.
   *
   * @param kernel content of a file that several images may have
   * @param hasLayer the programs of sbx are a file of their own
   */
  async install(
    profile: string,
    packages?: Partial<ImageRecord["packages"]>,
    kernel = "",
    hasLayer = false,
  ): Promise<void> {
    const out = await Deno.makeTempDir();
    await Deno.mkdir(join(out, "x86_64"));
    for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs", ...hasLayer ? ["layer.erofs"] : []]) {
      const text = name === "vmlinuz" && kernel || `${name} of ${profile}${crypto.randomUUID()}`;
      await Deno.writeTextFile(join(out, "x86_64", name), text);
    }
    const image = packages &&
      { profile, npm_lock: {}, packages: { suite: "trixie", apt: [], npm: [], bin: {}, ...packages } };
    const path = await generateManifest(out, { binaryVersion: "0.1.0", image });
    await installAssets({ manifestUrl: `file://${path}`, home: this.home, arch: "x86_64" });
    await Deno.remove(out, { recursive: true });
  }

  async profile(id: string, packages: string): Promise<void> {
    const dir = join(this.home.profilesDir, id);
    await Deno.mkdir(dir, { recursive: true });
    await Deno.writeTextFile(
      join(dir, "profile.toml"),
      `id = "${id}"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n${packages}`,
    );
  }

  /** Profile whose image a profile boots, or the error's code. */
  async boots(id: string): Promise<string> {
    try {
      const { image } = await bootAssets(this.home, await loadProfile(this.home, id), "x86_64");
      return image?.profile ?? "any";
    } catch (error) {
      if (error instanceof SbxError) return error.code;
      throw error;
    }
  }

  async [Symbol.asyncDispose]() {
    await Deno.remove(this.home.dir, { recursive: true });
  }
}
