/**
 * Boots as the service makes them, from a corp.toml, a settings.toml and a profile in a folder of their own.
 */
import { currentArch } from "../../lib/base/arch/mod.ts";
import { join } from "node:path";
import { installedName } from "../../lib/release/asset/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { type Home, home as homeOf } from "../../lib/base/home/mod.ts";
import { CorpStore } from "../../lib/config/corp/mod.ts";
import { type BootSources, makeBoot, type VmRequest } from "../../lib/service/vm/boot.ts";
import { Detections } from "../../lib/home/mod.ts";
import { ReleaseStanding } from "../../lib/service/contract/publisher_status.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import { Qemu } from "../../lib/machine/vm/mod.ts";

/** A home whose profile `p` boots. */
export interface BootHome {
  home: Home;
  settings: SettingsStore;
  sources: BootSources;
  /** writes corp.toml */
  corp(text: string): Promise<void>;
  /** writes settings.toml */
  user(text: string): Promise<void>;
  /** writes the profile `p`, which pins its assets */
  profile(text?: string, options?: { revision?: string }): Promise<void>;
  bootOf(profile: string): ReturnType<typeof makeBoot>;
  boot(asked?: Partial<VmRequest>, options?: Parameters<typeof makeBoot>[3]): ReturnType<typeof makeBoot>;
}

/** Boot files of the profile; each holds the name of its part. */
export const FILES = { kernel: "vmlinuz", initrd: "initrd.img", rootfs: "rootfs.erofs" };

/** Runs a test in a new home. */
export function withBoot(run: (home: BootHome) => Promise<void>) {
  return async () => {
    const dir = await Deno.makeTempDir();
    try {
      const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
      const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
      const settings = await SettingsStore.open({
        home,
        corp,
        definitions: await loadDefinitions({ get: () => undefined }),
      });
      await Deno.mkdir(home.assetsDir);
      for (const [part, name] of Object.entries(FILES)) {
        await Deno.writeTextFile(join(home.assetsDir, installedName(name, blake3(part))), part);
      }
      const profile: BootHome["profile"] = async (text = "", { revision = "1.0.0" } = {}) => {
        const pins = Object.entries(FILES).map(([part, name]) =>
          `[assets.arch.${currentArch()}.${part}]\nname = "${name}"\nurl = "https://example.org/${name}"\n` +
          `hash = "blake3:${blake3(part)}"\nsize = ${part.length}\n`
        );
        await Deno.mkdir(join(home.profilesDir, "p"), { recursive: true });
        await Deno.writeTextFile(
          join(home.profilesDir, "p", "profile.toml"),
          `id = "p"\nname = "P"\ndescription = ""\nrevision = "${revision}"\n${text}\n${pins.join("")}`,
        );
      };
      await profile();
      const standing = new ReleaseStanding(home);
      const sources = {
        home,
        settings,
        corp,
        detections: new Detections(home),
        standing,
        hypervisor: new Qemu(),
      };
      await run({
        home,
        settings,
        sources,
        profile,
        corp: (text) => Deno.writeTextFile(join(dir, "corp.toml"), text),
        user: (text) => Deno.writeTextFile(join(dir, "settings.toml"), text),
        bootOf: (id) => makeBoot(sources, id, { env: {} }),
        boot: (asked, options) => makeBoot(sources, "p", { env: {}, ...asked }, options),
      });
    } finally {
      // A boot that was refused may have left work of its own behind, which writes a file now.
      await Deno.remove(dir, { recursive: true }).catch(() => Deno.remove(dir, { recursive: true }));
    }
  };
}

/** TOML of one setting. */
export const set = (id: string, value: unknown) => `[settings."${id}"]\nvalue = ${JSON.stringify(value)}\n`;
