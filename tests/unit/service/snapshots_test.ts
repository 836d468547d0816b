/** Snapshots of VMs as their service makes them: by hand, by the clock, and the way back by time. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { Service } from "../../../lib/service/mod.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { sessionPaths, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { recordOf } from "../../helper/vm.ts";

interface World {
  service: Service;
  vm: Vm;
  put(text: string): Promise<void>;
  get(): Promise<string>;
}

async function withVm(work: (world: World) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const id = crypto.randomUUID();
    const paths = sessionPaths(home, id);
    for (const path of [paths.workspace, paths.snapshots]) await Deno.mkdir(path, { recursive: true });
    await writeRecord(paths, recordOf(id, "dev"));
    await writeState(paths, { state: "Stopped", boot_stages: [], pid: 0 });
    const corp = new CorpStore(home, { managed: `${dir}/corp.toml` });
    const definitions = await loadDefinitions({ get: () => undefined });
    const service = new Service({
      home,
      corp,
      settings: await SettingsStore.open({ home, corp, definitions }),
    });
    await service.supervisor.load();
    const file = join(paths.workspace, "file");
    await work({
      service,
      vm: service.supervisor.find("dev"),
      put: (text) => Deno.writeTextFile(file, text),
      get: () => Deno.readTextFile(file),
    });
    await service.sessions.list();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const code = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;

Deno.test("undo goes to the newest other state, and undoes itself; a dry run changes nothing", () =>
  withVm(async ({ service: { snapshots }, vm, put, get }) => {
    await put("one");
    const first = await snapshots.create(vm, "first");
    assertEquals(await code(() => snapshots.undo(vm, {})), "snapshot.not_found");
    await put("two");
    const dry = await snapshots.undo(vm, { dry_run: true });
    assertEquals([await get(), dry.snapshot.id, dry.before], ["two", first.id, undefined]);
    assertEquals(dry.changes, [{
      path: "file",
      change: "modified",
      type: "file",
      size_before: 3,
      size_after: 3,
    }]);
    await snapshots.undo(vm, {});
    assertEquals(await get(), "one");
    await snapshots.undo(vm, {});
    assertEquals(await get(), "two");
  }));

Deno.test("undo to a time takes the newest snapshot before it, and says when there is none", () =>
  withVm(async ({ service: { snapshots }, vm, put, get }) => {
    assertEquals(await code(() => snapshots.undo(vm, {})), "snapshot.not_found");
    const times: number[] = [];
    for (const text of ["one", "two", "three"]) {
      await put(text);
      times.push((await snapshots.create(vm)).created_unix_ms);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await snapshots.undo(vm, { before_unix_ms: times[1] + 1 });
    assertEquals(await get(), "two");
    await snapshots.undo(vm, { before_unix_ms: times[1] - 1 });
    assertEquals(await get(), "one");
    assertEquals(
      await code(() => snapshots.undo(vm, { before_unix_ms: times[0] - 1 })),
      "snapshot.not_found",
    );
    assertEquals(await code(() => snapshots.undo(vm, { to: "s00000000" })), "snapshot.not_found");
    assertEquals(await code(() => snapshots.undo(vm, { to: "x", before_unix_ms: 1 })), "request.invalid");
    assertEquals(await code(() => snapshots.restore(vm, "s00000000", ["../x"])), "snapshot.not_found");
    const { id } = (await snapshots.list(vm))[0];
    assertEquals(await code(() => snapshots.restore(vm, id, ["../x"])), "path.outside_workspace");
  }));

Deno.test("a running VM gets snapshots by the clock while its files change, unless they are switched off", () =>
  withVm(async ({ service: { snapshots, settings }, vm, put }) => {
    const count = async () => (await snapshots.list(vm)).length;
    const created = Date.parse(vm.record.created_at);
    const at = async (minutes: number) => (await snapshots.look(created + minutes * 60_000), await count());
    await put("one");
    assertEquals(await at(10), 0);
    vm.state = { ...vm.state, state: "Running" };
    assertEquals([await at(4), await at(5), await at(6), await at(10)], [0, 1, 1, 1]);
    await put("two");
    assertEquals([await at(14), await at(15)], [1, 2]);
    await settings.edit({ "vm.snapshots.enabled": false });
    await put("three");
    assertEquals([await at(60), await snapshots.protect(vm, "before a turn")], [2, undefined]);
  }));

Deno.test("a snapshot that fails holds up nothing: there is none", () =>
  withVm(async ({ service: { snapshots }, vm, put }) => {
    await put("one");
    await Deno.remove(vm.paths.snapshots, { recursive: true });
    assertEquals(await snapshots.protect(vm, "before a turn"), undefined);
    // The folder of a VM that was deleted meanwhile does not come back.
    assertEquals(await Deno.stat(vm.paths.snapshots).then(() => true, () => false), false);
  }));
