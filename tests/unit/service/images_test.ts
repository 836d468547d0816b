/** Removal of installed images, and of the files that nothing boots from any more. */
import { assert, assertEquals, assertObjectMatch, assertRejects } from "@std/assert";
import { join } from "node:path";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { bootAssets, loadProfile } from "../../../lib/config/profile/mod.ts";
import { Images } from "../../../lib/service/images.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { InstalledImages } from "../../helper/installed_images.ts";
import { recordOf } from "../../helper/vm.ts";

/** Two profiles with an image each, of which one boots the other's kernel too. */
class World implements AsyncDisposable {
  readonly registry: Registry;
  readonly images: Images;
  spare: string[] = [];
  deleted: string[] = [];
  deletedEnvironments: string[] = [];
  cleaned = 0;

  private constructor(readonly installed: InstalledImages) {
    this.registry = new Registry(this.home);
    this.images = this.imagesOf(this.home);
  }

  static async make(): Promise<World> {
    const world = new World(await InstalledImages.make());
    for (const id of ["one", "two"]) await world.installed.profile(id, `[packages]\napt = ["${id}"]\n`);
    for (const id of ["one", "two"]) await world.installed.install(id, { apt: [id] }, "the same kernel");
    return world;
  }

  get home(): Home {
    return this.installed.home;
  }

  imagesOf(home: Home): Images {
    return new Images({
      home,
      registry: this.registry,
      bin: {
        assets: () => Promise.resolve(this.deleted),
        environments: () => Promise.resolve(this.deletedEnvironments),
      },
      spareAssets: () => this.spare,
      cleanTemplates: () => Promise.resolve(void this.cleaned++),
    });
  }

  async assetsOf(profile: string): Promise<Vm["record"]["assets"]> {
    const { kernel, initrd, rootfs } = await bootAssets(
      this.home,
      await loadProfile(this.home, profile),
      "x86_64",
    );
    return {
      version: "1",
      arch: "x86_64" as const,
      image: profile,
      kernel: kernel.path,
      initrd: initrd.path,
      rootfs: rootfs.path,
    };
  }

  async addVm(profile: string, state: Vm["state"]["state"]): Promise<Vm> {
    const id = crypto.randomUUID();
    const record = {
      ...recordOf(id, `${profile}-${state}`),
      profile_id: profile,
      assets: await this.assetsOf(profile),
    };
    const vm: Vm = {
      record,
      paths: sessionPaths(this.home, id),
      process: new VmProcess(join(this.home.dir, "none.sock")),
      state: { state, boot_stages: [], pid: 0 },
    };
    this.registry.add(vm);
    return vm;
  }

  /** Names in the folder of assets, but for the lock. */
  async files(): Promise<string[]> {
    const names = await Array.fromAsync(Deno.readDir(this.home.assetsDir), ({ name }) => name);
    return names.filter((name) => name !== ".lock").sort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.installed[Symbol.asyncDispose]();
  }
}

const namesOf = ({ kernel, initrd, rootfs }: Vm["record"]["assets"]) =>
  [kernel, initrd, rootfs].map((path) => path.split("/").at(-1)!);

Deno.test("an image goes with the files that no other image boots from, and no profile finds it again", async () => {
  await using world = await World.make();
  const [one, two] = await Promise.all([world.assetsOf("one"), world.assetsOf("two")]);
  assertEquals(one.kernel, two.kernel);
  const part = `${namesOf(one)[2]}.part`;
  for (const name of [part, "notes.txt", "rootfs-.erofs", "B3SUMS"]) {
    await Deno.writeTextFile(join(world.home.assetsDir, name), "a person's, or a download's that goes on");
  }
  await world.addVm("one", "Stopped");
  const removed = await world.images.remove("one");
  assertEquals(removed.files, [one.initrd, one.rootfs].map((path) => path.split("/").at(-1)!).sort());
  assert(removed.bytes > 0);
  assertObjectMatch(removed, { without_image: ["one"], used_by: [] });
  assertEquals(world.cleaned, 1);
  assertEquals(
    await world.files(),
    [
      ...namesOf(two),
      "two.manifest.json",
      "two.manifest-origin.json",
      part,
      "notes.txt",
      "rootfs-.erofs",
      "B3SUMS",
    ]
      .sort(),
  );
  assertEquals(await world.installed.boots("one"), "assets.missing");
  assertEquals(await world.installed.boots("two"), "two");
  assertEquals((await assertRejects(() => world.images.remove("one"), SbxError)).code, "image.not_found");
});

Deno.test("files that a VM, a pin or the machine started ahead needs stay until it does not", async () => {
  await using world = await World.make();
  const assets = await world.assetsOf("one");
  const vms = await Promise.all(
    (["Running", "Suspended"] as const).map((state) => world.addVm("one", state)),
  );
  const removed = await world.images.remove("one");
  assertEquals([removed.files, removed.used_by.sort()], [[], ["one-Running", "one-Suspended"]]);
  vms[0].state = { ...vms[0].state, state: "Stopped" };
  assertEquals((await world.images.prune()).files, [], "the suspended one resumes from them");
  vms[1].state = { ...vms[1].state, state: "Stopped" };
  vms[1].busy = "start";
  assertEquals((await world.images.prune()).files, [], "one that is being started has no other sign of it");
  vms[1].busy = undefined;
  world.spare = [assets.initrd];
  assertEquals((await world.images.prune()).files, [namesOf(assets)[2]]);
  world.spare = [];
  const hash = "0".repeat(48);
  const pin = (name: string) =>
    `{ name = "${name}", url = "https://assets.test/${name}", hash = "blake3:${
      namesOf(assets)[1].split("-")[1].split(".")[0] + hash
    }", size = 1 }`;
  await world.installed.profile(
    "pinned",
    `[assets.arch.x86_64]\nkernel = ${pin("vmlinuz")}\ninitrd = ${pin("initrd.img")}\nrootfs = ${
      pin("rootfs.erofs")
    }\n`,
  );
  assertEquals((await world.images.prune()).files, []);
  await Deno.remove(join(world.home.profilesDir, "pinned"), { recursive: true });
  assertEquals((await world.images.prune(60_000)).files, [], "it was written a moment ago");
  assertEquals((await world.images.prune()).files, [namesOf(assets)[1]]);
});

Deno.test("what cannot be read is no reason to remove a file: a broken profile, a broken manifest", async () => {
  await using world = await World.make();
  const before = await world.files();
  await world.installed.profile("broken", "nonsense = 1\n");
  await assertRejects(() => world.images.remove("one"), SbxError, "broken");
  await Deno.remove(join(world.home.profilesDir, "broken"), { recursive: true });
  assertEquals(await world.files(), before);
  await Deno.writeTextFile(join(world.home.assetsDir, "two.manifest.json"), "{");
  for (const work of [() => world.images.prune(), () => world.images.remove("one")]) {
    await assertRejects(work, SbxError, "two.manifest.json");
    assertEquals(await world.files(), before);
  }
  await world.images.remove("two");
  assertEquals(await world.installed.boots("one"), "one");
});

Deno.test("a folder that SBX_ASSETS_DIR names may serve other homes, and is left alone", async () => {
  await using world = await World.make();
  const other = await Deno.makeTempDir();
  const env: Record<string, string> = { SBX_HOME: other, SBX_ASSETS_DIR: world.home.assetsDir };
  const images = world.imagesOf(homeOf({ get: (name) => env[name] }));
  const before = await world.files();
  for (const work of [() => images.remove("one"), () => images.prune()]) {
    assertEquals((await assertRejects(work, SbxError)).code, "image.shared");
  }
  await images.pruneOld();
  assertEquals(await world.files(), before);
  await Deno.remove(other, { recursive: true });
});
