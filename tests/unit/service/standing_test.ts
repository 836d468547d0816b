/** Revoked profiles and images start no VM; deprecated ones say so. */
import { assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { installedName } from "../../../lib/release/asset/mod.ts";
import type { Boot, BootSources } from "../../../lib/service/vm/boot.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import { ReleaseStanding } from "../../../lib/service/contract/publisher_status.ts";
import { Supervisor, type SupervisorOptions } from "../../../lib/service/vm/supervisor.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
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

/** As {@linkcode vmOf}, suspended. */
async function suspended(home: Home, record: Boot["record"]): Promise<Vm> {
  const vm = vmOf(home, record);
  await Deno.mkdir(vm.paths.suspended, { recursive: true });
  return {
    ...vm,
    process: new VmProcess(vm.paths.socket),
    state: { state: "Suspended", boot_stages: [], pid: 0 },
  };
}

/** The lives of VMs on a host that can do everything; nothing of them is started here. */
function supervisorOf(home: Home, sources: BootSources): Supervisor {
  const features = { pause: true, save_state: true, live_fork: true };
  const hypervisor = { features, lackOf: () => undefined, requireHost: () => {} };
  return new Supervisor(
    { ...sources, hypervisor, registry: new Registry(home) } as unknown as SupervisorOptions,
  );
}

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

/** Parts of an image, by the names in a profile document, with their logical names. */
const PARTS = {
  kernel: "vmlinuz",
  initrd: "initrd.img",
  rootfs: "rootfs.erofs",
  layer: "layer.erofs",
} as const;

for (const [part, name] of Object.entries(PARTS)) {
  Deno.test(
    `a suspended VM with a revoked ${part} neither resumes nor forks, and a running one says so`,
    withBoot(async ({ boot, home, sources }) => {
      const { record } = await boot();
      // The image that is installed now is another one.
      const hashes = { ...record.assets.hashes, [name]: OTHER };
      const vm = await suspended(home, { ...record, assets: { ...record.assets, hashes } });
      const supervisor = supervisorOf(home, sources);
      const notes = () => new ReleaseStanding(home).notesOf(vm);
      assertEquals(await notes(), []);
      await learn(home, "revoked", { id: "other", revision: "1.0.0", [part]: OTHER });
      for (const act of [() => supervisor.start(vm), () => supervisor.fork(vm, {})]) {
        const { code, hint } = await assertRejects(
          act,
          SbxError,
          'the image that "dev" was suspended with is revoked',
        );
        assertEquals(code, "release.revoked");
        assertEquals(hint?.startsWith("sbx stop dev gives its memory up"), true);
      }
      assertEquals(await notes(), [
        'its image is revoked with release 1.0.0 of channel "stable": sbx update installs another one',
      ]);
    }),
  );
}

Deno.test(
  "the hashes of a record are by logical name, also where a profile pins two files of one name",
  withBoot(async ({ boot, home }) => {
    const path = join(home.profilesDir, "p", "profile.toml");
    const text = (await Deno.readTextFile(path)).replaceAll(
      /name = "(vmlinuz|initrd.img)"/g,
      'name = "boot.bin"',
    );
    await Deno.writeTextFile(path, text);
    for (const part of ["kernel", "initrd"]) {
      await Deno.writeTextFile(join(home.assetsDir, installedName("boot.bin", blake3(part))), part);
    }
    const { record } = await boot();
    const parts = ["kernel", "initrd", "rootfs"] as const;
    assertEquals(record.assets.hashes, Object.fromEntries(parts.map((part) => [PARTS[part], blake3(part)])));
  }),
);

Deno.test(
  "a record of an older sbx, without hashes, has them in the names of its files",
  withBoot(async ({ boot, home }) => {
    const { record: { assets: { hashes: _, ...files } } } = await boot();
    for (const part of ["kernel", "initrd", "rootfs"] as const) {
      const path = `/old/${installedName(PARTS[part], OTHER)}`;
      await learn(home, "revoked", { id: "other", revision: "1.0.0", [part]: OTHER });
      await assertRejects(
        () => new ReleaseStanding(home).requireMachine("dev", { ...files, [part]: path }),
        SbxError,
        "is revoked",
      );
      await Deno.remove(join(home.dir, "release"), { recursive: true });
    }
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
