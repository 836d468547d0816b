/** Deleted VMs on disk: kept for a day, bounded, and removed where the disk gets short of room. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { Bin, KEEP_MAX, KEEP_MS } from "../../../lib/service/vm/bin.ts";
import { sessionPaths, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { recordOf } from "../../helper/vm.ts";

const ROOM = 100 * 1024 ** 3;

class World implements AsyncDisposable {
  free = ROOM;
  readonly bin: Bin;
  readonly home;

  private constructor(readonly dir: string) {
    this.home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    this.bin = new Bin(this.home, () => Promise.resolve(this.free));
  }

  static async make(): Promise<World> {
    return new World(await Deno.makeTempDir());
  }

  /** A VM on disk. */
  async vm(name: string, state: "Stopped" | "Suspended" = "Stopped") {
    const record = recordOf(crypto.randomUUID(), name);
    const paths = sessionPaths(this.home, record.id);
    await Deno.mkdir(paths.workspace, { recursive: true });
    await writeRecord(paths, record);
    await writeState(paths, { state, boot_stages: [], pid: 0 });
    return { record, paths, dir: paths.dir };
  }

  async delete(name: string, state?: "Stopped" | "Suspended") {
    const vm = await this.vm(name, state);
    await this.bin.put(vm);
    return vm;
  }

  async names(): Promise<string[]> {
    return (await this.bin.list()).map(({ name }) => name).toSorted();
  }

  files(): string[] {
    return Array.from(Deno.readDirSync(`${this.dir}/deleted`), ({ name }) => name);
  }

  async [Symbol.asyncDispose]() {
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("a VM is kept until its day is over, and for its user alone", async () => {
  await using world = await World.make();
  await world.delete("a");
  const [{ deleted_at, expires_at }] = await world.bin.list();
  assertEquals(Date.parse(expires_at) - Date.parse(deleted_at), KEEP_MS);
  assertEquals(Deno.lstatSync(`${world.dir}/deleted`).mode! & 0o777, 0o700);
  await world.bin.sweep(Date.parse(expires_at) - 1);
  assertEquals(await world.names(), ["a"]);
  await world.bin.sweep(Date.parse(expires_at));
  assertEquals([await world.names(), world.files()], [[], []]);
});

Deno.test("of too many the oldest go, and all of them where the disk is short of room", async () => {
  await using world = await World.make();
  for (let at = 0; at <= KEEP_MAX; at++) {
    await world.delete(`vm-${at}`);
    // Deleted at different moments.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const names = await world.names();
  assertEquals([names.length, names.includes("vm-0"), names.includes("vm-1")], [KEEP_MAX, false, true]);
  const next = await world.vm("next");
  assert(await world.bin.takes(next));
  world.free = 1;
  assertEquals(await world.bin.takes(next), false);
  assertEquals([await world.names(), world.files()], [[], []]);
});

Deno.test("VMs of MCP servers and damaged ones are not kept", async () => {
  await using world = await World.make();
  const { record, paths } = await world.vm("a");
  const parent = { id: crypto.randomUUID(), server: "files" };
  assertEquals(await world.bin.takes({ record: { ...record, parent } as typeof record }), false);
  assertEquals(await world.bin.takes({ record, damaged: true }), false);
  assert(await world.bin.takes({ record }));
  await world.bin.put({ record, dir: paths.dir });
  assertEquals(await world.bin.empty(), ["a"]);
  assertEquals(world.files(), []);
});

Deno.test("VMs that are deleted and swept at the same moment are all kept", async () => {
  await using world = await World.make();
  const vms = await Promise.all(Array.from({ length: 20 }, (_, at) => world.vm(`vm-${at}`)));
  await Promise.all(vms.flatMap((vm) => [world.bin.put(vm), world.bin.sweep()]));
  assertEquals((await world.names()).length, 20);
});

Deno.test("a removal that was broken off is finished, and nothing of it can be restored", async () => {
  await using world = await World.make();
  const { record: { id } } = await world.delete("half");
  await world.delete("whole");
  await Deno.remove(`${world.dir}/deleted/${id}/deleted.json`);
  assertEquals(await world.names(), ["whole"]);
  await world.bin.sweep();
  assertEquals(world.files().length, 1);
});

Deno.test("a VM whose files cannot be removed keeps neither others nor itself in the list", async () => {
  await using world = await World.make();
  const { record: { id } } = await world.delete("stuck");
  const bin = new Bin(world.home, () => Promise.resolve(world.free), (dir) => {
    if (dir.endsWith(id)) return Promise.reject(new Deno.errors.PermissionDenied("a guest's folder"));
    return Deno.remove(dir, { recursive: true });
  });
  await world.delete("other");
  await bin.sweep(Date.now() + KEEP_MS);
  assertEquals([await world.names(), world.files()], [[], [id]]);
  await bin.put(await world.vm("next"));
  assertEquals(await bin.empty(), ["next"]);
  assertEquals(world.files(), [id]);
});

Deno.test("a VM whose day is over is not listed, also before the sweep that removes it", async () => {
  await using world = await World.make();
  await world.delete("a");
  const [{ expires_at, id }] = await world.bin.list();
  assertEquals(await world.bin.list(Date.parse(expires_at)), []);
  assertEquals(world.files(), [id]);
});

Deno.test("a bin on another disk takes VMs and gives them back, whole or not at all", async () => {
  await using world = await World.make();
  const other = await Deno.makeTempDir({ dir: "/dev/shm" });
  try {
    assert((await Deno.stat(other)).dev !== (await Deno.stat(world.dir)).dev, "needs a second file system");
    await Deno.symlink(other, `${world.dir}/deleted`);
    const { record: { id }, paths } = await world.vm("a");
    await Deno.writeTextFile(`${paths.workspace}/f`, "text");
    await Deno.mkdir(`${other}/.${id}.part/left by a process that was killed`, { recursive: true });
    await world.bin.put({ record: { id, name: "a", profile_id: "code" }, dir: paths.dir });
    assertEquals([await world.names(), world.files()], [["a"], [id]]);
    await assertRejects(() => Deno.lstat(paths.dir), Deno.errors.NotFound);
    await world.bin.takeOut(id);
    assertEquals([await Deno.readTextFile(`${paths.workspace}/f`), world.files()], ["text", []]);
  } finally {
    await Deno.remove(other, { recursive: true });
  }
});

Deno.test("a suspended VM keeps its assets from being pruned", async () => {
  await using world = await World.make();
  await world.delete("stopped");
  assertEquals(await world.bin.assets(), []);
  const { record: { assets } } = await world.delete("asleep", "Suspended");
  assertEquals(await world.bin.assets(), [assets.kernel, assets.initrd, assets.rootfs]);
});
