/** An image whose files are others than its manifest names boots no VM, and a look at the profile says so. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { installedName } from "../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { requireAssets } from "../../../lib/service/health/issues.ts";
import { FILES, withBoot } from "../../helper/boot.ts";

Deno.test(
  "a boot file with other bytes of the same size is found, also after it was good once",
  withBoot(async ({ home }) => {
    const alive = setInterval(() => {}, 1000);
    try {
      const profile = await loadProfile(home, "p");
      const { rootfs } = await requireAssets(home, profile);
      assertEquals(rootfs.path, join(home.assetsDir, installedName(FILES.rootfs, blake3("rootfs"))));
      await Deno.writeTextFile(rootfs.path, "rootFS");
      const { code, message } = await assertRejects(() => requireAssets(home, profile), SbxError);
      assertEquals([code, message.includes(rootfs.path)], ["assets.mismatch", true]);
    } finally {
      clearInterval(alive);
    }
  }),
);
