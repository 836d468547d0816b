/** Profiles of a home for tests of the desktop: one with an image, and another one of its name without. */
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import type { Home } from "../../lib/base/home/mod.ts";
import { installedName } from "../../lib/release/asset/mod.ts";
import { FILES } from "./boot.ts";

/** Writes the profiles `usable` and `zzz`, both named Twin; the image of the first boots nothing. */
export async function prepareImage(home: Home): Promise<void> {
  await Deno.mkdir(home.assetsDir, { recursive: true });
  for (const [part, name] of Object.entries(FILES)) {
    await Deno.writeTextFile(join(home.assetsDir, installedName(name, blake3(part))), part);
  }
  const pins = Object.entries(FILES).map(([part, name]) =>
    `[assets.arch.${currentArch()}.${part}]\nname = "${name}"\nurl = "https://example.org/${name}"\n` +
    `hash = "blake3:${blake3(part)}"\nsize = ${part.length}\n`
  );
  for (const [id, terms] of [["usable", pins.join("")], ["zzz", ""]]) {
    await Deno.mkdir(join(home.profilesDir, id), { recursive: true });
    const text = `id = "${id}"\nname = "Twin"\ndescription = ""\nrevision = "1.0.0"\n${terms}`;
    await Deno.writeTextFile(join(home.profilesDir, id, "profile.toml"), text);
  }
}
