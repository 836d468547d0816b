/**
 * A program for kills: installs one release after the other, without end. Arguments:
 * the home, and their manifests.
 */
import { installAssets } from "../../lib/release/asset/mod.ts";
import { home as findHome } from "../../lib/base/home/mod.ts";
import { recordChange } from "../../lib/publish/update/mod.ts";

const [dir, ...manifests] = Deno.args;
const home = findHome({ get: (name) => name === "SBX_HOME" ? dir : undefined });
for (let at = 0;; at++) {
  await installAssets({
    manifestUrl: manifests[at % manifests.length],
    home,
    arch: "x86_64",
    allowDowngrade: true,
    record: ({ isDowngrade: _, ...change }) => recordChange(home, { what: "assets", ...change }),
  });
  // The parent counts from the first one on.
  if (at === 0) await Deno.stdout.write(new TextEncoder().encode("ready\n"));
}
