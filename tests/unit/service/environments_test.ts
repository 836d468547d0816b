/** Environments of a home: which VM has which, and what goes. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import {
  blobPath,
  environmentFiles,
  findEnvironment,
  keepingEnvironments,
  makeWorkFolder,
  nameEnvironment,
  requireKept,
} from "../../../lib/release/environment/mod.ts";
import { environmentOf, type Profile } from "../../../lib/config/profile/mod.ts";
import { Images } from "../../../lib/service/images.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { digestOf, installFake } from "../../helper/environment.ts";
import { recordOf } from "../../helper/vm.ts";

/** A home with environments `a` and `b`, which share a layer, and a VM of `a`. */
async function inHome(work: (world: Awaited<ReturnType<typeof makeWorld>>) => Promise<void>): Promise<void> {
  const world = await makeWorld(await Deno.makeTempDir());
  try {
    await work(world);
  } finally {
    await Deno.remove(world.home.dir, { recursive: true });
  }
}

async function makeWorld(dir: string) {
  const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const shared = digestOf("f");
  const all = await Promise.all(
    ["a", "b"].map((letter) => installFake(place, letter, [shared, digestOf(`${letter}0`)])),
  );
  const registry = new Registry(place);
  const deleted: string[] = [], ofSuspended: string[] = [];
  const images = new Images({
    home: place,
    registry,
    bin: { assets: () => Promise.resolve(ofSuspended), environments: () => Promise.resolve(deleted) },
    spareAssets: () => [],
    cleanTemplates: () => Promise.resolve(),
  });
  const id = crypto.randomUUID();
  const { key, reference, digest } = all[0];
  registry.add({
    record: { ...recordOf(id, "vm"), environment: { key, reference, digest } },
    paths: sessionPaths(place, id),
    process: new VmProcess(join(dir, "none.sock")),
    state: { state: "Stopped", boot_stages: [], pid: 0 },
  });
  return { home: place, images, registry, deleted, ofSuspended, all, shared };
}

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

Deno.test("environments are listed with their VMs, and found by reference", () =>
  inHome(async ({ home, images, all: [a, b] }) => {
    const listed = await images.environments();
    assertEquals(
      listed.map(({ environment, references, used_by }) => [environment.key, references, used_by]),
      [
        [b.key, [b.reference], []],
        [a.key, [a.reference], ["vm"]],
      ],
    );
    assertEquals((await findEnvironment(home, a.reference, "x86_64"))?.key, a.key);
    assertEquals(await findEnvironment(home, a.reference, "arm64"), undefined);
    assert(await exists(environmentFiles(home, a).rootfs.path));
  }));

Deno.test("an environment that a VM has stays; another one goes with the layers that only it has", () =>
  inHome(async ({ home, images, all: [a, b], shared }) => {
    const { code } = await assertRejects(() => images.removeEnvironment("a:1"), SbxError);
    assertEquals(code, "environment.in_use");
    assertEquals((await images.removeEnvironment("b:1")).environments, [b.reference]);
    assertEquals(
      await Promise.all([shared, digestOf("a0"), digestOf("b0")].map((each) => exists(blobPath(home, each)))),
      [
        true,
        true,
        false,
      ],
    );
    assertEquals(await findEnvironment(home, b.reference, "x86_64"), undefined);
    assert(await exists(environmentFiles(home, a).rootfs.path));
    const missing = await assertRejects(() => images.removeEnvironment(b.key), SbxError);
    assertEquals(missing.code, "environment.not_found");
  }));

Deno.test("collection keeps what VMs, deleted VMs and profiles need, and removes leftovers of makers", () =>
  inHome(async ({ home, images, deleted, all: [a, b] }) => {
    const left = await makeWorkFolder(home);
    deleted.push(b.key);
    assertEquals((await images.collectEnvironments()).environments, []);
    assert(!await exists(left));
    deleted.pop();
    await Deno.mkdir(join(home.profilesDir, "mine"), { recursive: true });
    await Deno.writeTextFile(
      join(home.profilesDir, "mine/profile.toml"),
      'id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n[image]\nfrom = "b:1"\n',
    );
    assertEquals((await images.collectEnvironments()).environments, []);
    assertEquals((await images.environments()).map(({ profiles }) => profiles), [["mine"], []]);
    await Deno.remove(join(home.profilesDir, "mine"), { recursive: true });
    assertEquals((await images.collectEnvironments()).environments, [b.reference]);
    assertEquals((await images.environments()).map(({ environment: { key } }) => key), [a.key]);
  }));

Deno.test("an image that a machine compares with stays until the machine ends: its memory needs each disk", () =>
  inHome(async ({ home, images, registry, ofSuspended, all: [, b] }) => {
    const [vm] = registry.all();
    const { rootfs } = environmentFiles(home, b);
    // Another image took the place of b before the VM was started: its record has the one before that.
    vm.record = { ...vm.record, assets: { ...vm.record.assets, before: rootfs.path } };
    for (const state of ["Running", "Suspended"] as const) {
      vm.state = { ...vm.state, state, pid: Deno.pid };
      assertEquals((await images.collectEnvironments()).environments, [], state);
      assertEquals((await images.environments())[0].used_by, ["vm"]);
      assertEquals(
        (await assertRejects(() => images.removeEnvironment("b:1"), SbxError)).code,
        "environment.in_use",
      );
    }
    vm.state = { ...vm.state, state: "Stopped", pid: 0 };
    ofSuspended.push(rootfs.path);
    assertEquals((await images.collectEnvironments()).environments, []);
    ofSuspended.pop();
    assertEquals((await images.collectEnvironments()).environments, [b.reference]);
  }));

Deno.test("nothing is removed while an image is made", () =>
  inHome(async ({ home, images }) => {
    await keepingEnvironments(home, async () => {
      const { code } = await assertRejects(() => images.collectEnvironments(), SbxError);
      assertEquals(code, "environment.busy");
    });
  }));

Deno.test("a VM that is made while its image is removed waits for the removal, and is refused", () =>
  inHome(async ({ home, images, all: [a, b] }) => {
    const removal = images.collectEnvironments();
    await assertRejects(
      async () => {
        await removal;
        await requireKept(home, b);
      },
      SbxError,
      "was removed meanwhile",
    );
    await requireKept(home, a);

    using lock = await Deno.open(join(home.dir, "environments/.lock"), { write: true });
    await lock.lock(true);
    const kept = requireKept(home, a);
    let isOver = false;
    kept.finally(() => isOver = true).catch(() => {});
    await exists(join(home.dir, "environments"));
    assertEquals(isOver, false);
    await Deno.remove(join(home.dir, "environments", a.key), { recursive: true });
    await lock.unlock();
    await assertRejects(() => kept, SbxError, "was removed meanwhile");
  }));

Deno.test("an environment whose record is damaged stays as long as a VM has it", () =>
  inHome(async ({ home, images, all }) => {
    for (const { key } of all) await Deno.truncate(join(home.dir, "environments", key, "environment.json"));
    await images.collectEnvironments();
    const there = await Promise.all(all.map(({ key }) => exists(join(home.dir, "environments", key))));
    assertEquals(there, [true, false]);
  }));

Deno.test("an image has the name by which it is asked for, and a VM keeps that name", () =>
  inHome(async ({ home, all: [{ key, reference }] }) => {
    const mirror = "mirror.example.com/a:1";
    await nameEnvironment(home, { reference: mirror, arch: "x86_64", key });
    const profile = { id: "p", image: { from: "a:1", apt: [], npm: [] } } as unknown as Profile;
    const named = async (request: Parameters<typeof environmentOf>[3]) =>
      (await environmentOf(home, profile, "x86_64", request))?.reference;
    assertEquals(await named({ image: mirror }), mirror);
    assertEquals(await named({ image: mirror, environment: key }), mirror);
    assertEquals(await named({}), reference);
    // The profile may name another image by now.
    profile.image!.from = "other:1";
    assertEquals(await named({ environment: key }), reference);
  }));
