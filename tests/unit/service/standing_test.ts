/** Revoked profiles and images start no VM; deprecated ones say so. */
import { assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { ReleaseStanding } from "../../../lib/service/standing.ts";
import type { Boot } from "../../../lib/service/boot.ts";
import type { Vm } from "../../../lib/service/vm.ts";
import { sessionPaths, writeContract } from "../../../lib/session/mod.ts";
import { withBoot } from "../../helper/boot.ts";
import { fromRoot } from "../../helper/repo.ts";
import { learn } from "../../helper/release.ts";

/** BLAKE3 of the rootfs that the profiles of `withBoot` pin. */
const ROOTFS = blake3("rootfs");

const PACK = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.yaml"));

/** A VM that was made of a boot. */
function vmOf(home: Home, record: Boot["record"]): Pick<Vm, "record" | "paths"> {
  const id = crypto.randomUUID();
  const made = { id, name: "dev", created_at: "", persistent: true, scratch_gb: 0 };
  return { record: { ...made, ...record }, paths: sessionPaths(home, id) };
}

const OTHER = "e".repeat(64);

Deno.test(
  "a profile of a revoked release starts no VM, by its id and revision",
  withBoot(async ({ boot, home, profile }) => {
    await boot();
    await learn(home, "revoked", { id: "p", revision: "1.0.0", rootfs: OTHER });
    const { code, message, hint } = await assertRejects(() => boot(), SbxError);
    assertEquals([code, statusOf(code)], ["release.revoked", 409]);
    assertEquals(
      message,
      'profile "p" 1.0.0 is revoked: its publisher withdrew release 1.0.0 of channel "stable"',
    );
    assertEquals(hint, "sbx update check shows what to install instead");
    await profile("", { revision: "1.0.1" });
    await boot();
  }),
);

Deno.test(
  "an image of a revoked release starts no VM, whatever profile boots it",
  withBoot(async ({ boot, home }) => {
    await learn(home, "revoked", { id: "other", revision: "1.0.0", rootfs: ROOTFS });
    await assertRejects(() => boot(), SbxError, 'the image of profile "p" is revoked');
  }),
);

Deno.test(
  "the memory of a machine with a revoked image is not resumed, and a running VM says so",
  withBoot(async ({ boot, home }) => {
    const { record } = await boot();
    const standing = new ReleaseStanding(home);
    await standing.requireMachine("dev", record.assets);
    const vm = vmOf(home, record);
    assertEquals(await standing.notesOf(vm), []);
    await learn(home, "revoked", { id: "other", revision: "1.0.0", rootfs: ROOTFS });
    const { hint } = await assertRejects(
      () => standing.requireMachine("dev", record.assets),
      SbxError,
      'the image that "dev" was suspended with is revoked',
    );
    assertEquals(hint?.startsWith("sbx stop dev gives its memory up"), true);
    assertEquals(await standing.notesOf(vm), [
      'its image is revoked with release 1.0.0 of channel "stable": sbx update installs another one',
    ]);
  }),
);

Deno.test(
  "what is deprecated starts, and says so",
  withBoot(async ({ boot, home }) => {
    await learn(home, "deprecated", { id: "p", revision: "1.0.0", rootfs: ROOTFS });
    const { record } = await boot();
    const vm = vmOf(home, record);
    assertEquals(await new ReleaseStanding(home).notesOf(vm), [
      'profile "p" 1.0.0 is deprecated with release 1.0.0 of channel "stable": sbx update installs another one',
      'its image is deprecated with release 1.0.0 of channel "stable": sbx update installs another one',
    ]);
  }),
);

Deno.test(
  "a pinned pack that is revoked starts no VM; a deprecated one does, and says so",
  withBoot(async ({ boot, home, profile }) => {
    const folder = join(home.profilesDir, "p");
    const pack = (status: string) =>
      Deno.writeTextFile(join(folder, "pack.yaml"), PACK.replace("status: active", `status: ${status}`));
    await profile('[[detection.packs]]\nid = "sbx.minimal"\nversion = "1.0.0"\npath = "pack.yaml"');
    await pack("revoked");
    const { code } = await assertRejects(() => boot(), SbxError);
    assertEquals([code, statusOf(code)], ["detection.revoked", 409]);
    await pack("deprecated");
    const { record, contract } = await boot();
    const vm = vmOf(home, record);
    await Deno.mkdir(dirname(vm.paths.contract), { recursive: true });
    await writeContract(vm.paths, contract);
    assertEquals(await new ReleaseStanding(home).notesOf(vm), [
      'the detection pack "sbx.minimal" 1.0.0 is deprecated by its author',
    ]);
  }),
);

Deno.test(
  "a built-in profile is revoked by its document only",
  withBoot(async ({ bootOf, home }) => {
    await learn(home, "revoked", { id: "code", revision: "1.1.0", rootfs: OTHER });
    // There is no image for it here; a revocation would come first.
    const { code } = await assertRejects(() => bootOf("code"), SbxError);
    assertEquals(code, "assets.missing");
  }),
);

Deno.test(
  "a damaged memory starts no VM, rather than one that may be revoked",
  withBoot(async ({ boot, home }) => {
    await learn(home, "revoked", { id: "q", revision: "1.0.0", rootfs: OTHER });
    await boot();
    await Deno.writeTextFile(join(home.dir, "release", "memory.json"), "{}");
    await assertRejects(() => boot(), SbxError, "what sbx remembers of releases");
  }),
);
