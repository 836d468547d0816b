/** What a service finds of the VMs that were there before it, when their files are damaged. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CorpStore } from "../../../lib/corp/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/settings/mod.ts";
import { Supervisor } from "../../../lib/service/mod.ts";
import { recordOf } from "../../helper/vm.ts";

/** Leaves three VMs, has `damage` done to the first, and starts a supervisor. */
async function after(
  damage: (paths: ReturnType<typeof sessionPaths>) => Promise<void>,
  look: (supervisor: Supervisor, id: string) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const ids = Array.from({ length: 3 }, () => crypto.randomUUID());
    for (const [at, id] of ids.entries()) {
      const paths = sessionPaths(home, id);
      await Deno.mkdir(paths.workspace, { recursive: true });
      await writeRecord(paths, recordOf(id, `vm-${at}`));
      await writeState(paths, { state: "Stopped", boot_stages: [], pid: 0 });
    }
    const corp = new CorpStore(home, `${dir}/corp.toml`);
    const definitions = await loadDefinitions({ get: () => undefined });
    const supervisor = new Supervisor(home, await SettingsStore.open({ home, corp, definitions }), corp);
    await damage(sessionPaths(home, ids[0]));
    await supervisor.load();
    assertEquals(supervisor.list().length, 3);
    await look(supervisor, ids[0]);
    // What is left to be written of it.
    await supervisor.sessions.list();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

for (
  const [how, damage] of [
    ["is damaged", ({ record }) => Deno.writeTextFile(record, "{")],
    ["is empty", ({ record }) => Deno.truncate(record)],
    [
      "is another's",
      ({ record }) => Deno.writeTextFile(record, JSON.stringify(recordOf(crypto.randomUUID(), "other"))),
    ],
    ["is gone", ({ record }) => Deno.remove(record)],
  ] satisfies [string, (paths: ReturnType<typeof sessionPaths>) => Promise<void>][]
) {
  Deno.test(`a VM whose vm.json ${how} is Defunct, says why, and can be deleted`, () =>
    after(damage, async (supervisor, id) => {
      const { name, status, last_error, available_actions } = supervisor.summary(supervisor.find(id));
      assertEquals([name, status, available_actions], [`damaged-${id.slice(0, 8)}`, "Defunct", ["delete"]]);
      assertStringIncludes(last_error!, "vm.json is damaged or gone");
      const refused = await assertRejects(() => supervisor.start(supervisor.find(name)), SbxError);
      assertEquals(refused.code, "vm.wrong_state");
      assertEquals(await supervisor.purge(false), [], "nobody knows whether it was to be kept");
      const { dir } = supervisor.find(id).paths;
      await supervisor.delete(supervisor.find(name));
      await assertRejects(() => Deno.lstat(dir), Deno.errors.NotFound);
      assertEquals(supervisor.list().length, 2);
    }));
}

Deno.test("a VM whose state.json is damaged is Defunct, says why, and can be started or deleted", () =>
  after(({ state }) => Deno.writeTextFile(state, "{"), async (supervisor, id) => {
    const { name, status, last_error, available_actions } = supervisor.summary(supervisor.find(id));
    assertEquals([name, status, available_actions], ["vm-0", "Defunct", ["start", "delete"]]);
    assertStringIncludes(last_error!, "state.json is damaged");
    await supervisor.delete(supervisor.find(id));
    assertEquals(supervisor.list().length, 2);
  }));
