/** VMs with damaged files, as a service finds them when it starts. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { basename, dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { encodeFrame } from "../../../lib/base/wire/mod.ts";
import { CallServer, type MachineInfo } from "../../../lib/session/ipc/mod.ts";
import { Room } from "../../../lib/repo/mod.ts";
import { Service } from "../../../lib/service/mod.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import { pageOfVms } from "../../../lib/service/vm/page.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { sessionPaths, type VmRecord, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { limitChild } from "../../helper/child.ts";
import { eventually } from "../../helper/sbx.ts";
import { KEY } from "../../helper/credential.ts";
import { recordOf } from "../../helper/vm.ts";

/** Leaves three VMs, has `damage` done to the first, and starts a supervisor. */
async function after(
  damage: (paths: ReturnType<typeof sessionPaths>) => Promise<void>,
  look: (supervisor: Service["supervisor"], id: string, home: Home) => Promise<void> | void,
  left = 3,
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
    const corp = new CorpStore(home, { managed: `${dir}/corp.toml` });
    const definitions = await loadDefinitions({ get: () => undefined });
    const settings = await SettingsStore.open({ home, corp, definitions });
    const { supervisor, sessions } = new Service({ home, settings, corp });
    await damage(sessionPaths(home, ids[0]));
    await supervisor.load();
    assertEquals(supervisor.list().length, left);
    await look(supervisor, ids[0], home);
    // Waits for pending writes of the index.
    await sessions.list();
  } finally {
    // A VM whose process has just ended is still written down.
    await eventually(
      "the home can be removed",
      () => Deno.remove(dir, { recursive: true }).then(() => true, () => false),
    );
  }
}

Deno.test("a process that no service has ordered to start its machine is ended, and one that starts goes on", async () => {
  const calls: string[] = [];
  for (const accelerator of [undefined, "tcg"]) {
    let server: CallServer | undefined;
    const serveProcess = async ({ socket }: ReturnType<typeof sessionPaths>) => {
      await Deno.mkdir(dirname(socket), { recursive: true });
      const listener = Deno.listen({ transport: "unix", path: socket });
      const info = { boot_stages: [], pid: 0, ...(accelerator && { accelerator }) };
      server = new CallServer(listener, async (call, { reply }) => {
        calls.push(call.t);
        await reply({ t: "Info", info: { ...info, state: call.t === "Stop" ? "Suspended" : "Booting" } });
      });
    };
    await after(serveProcess, async (supervisor, id) => {
      assertEquals(supervisor.find(id).state.state, accelerator ? "Booting" : "Suspended");
      await server!.close();
    });
  }
  assertEquals(calls.filter((call) => call === "Stop").length, 1);
});

Deno.test("a disk that was enlarged by a service that ended before it noted that has the size of its file", () => {
  const enlarge = async (paths: ReturnType<typeof sessionPaths>) => {
    const record = JSON.parse(await Deno.readTextFile(paths.record)) as VmRecord;
    await writeRecord(paths, { ...record, scratch_gb: 2 });
    await Deno.writeFile(paths.scratch, new Uint8Array());
    await Deno.truncate(paths.scratch, 4 * 1024 ** 3);
  };
  return after(enlarge, (supervisor, id) => {
    assertEquals(supervisor.find(id).record.scratch_gb, 4);
  });
});

Deno.test("a VM whose process is of another version of sbx runs on, is not settled, and can be stopped", async () => {
  let listener: Deno.UnixListener | undefined;
  let child: Deno.ChildProcess | undefined;
  const serveProcess = async ({ socket, dir }: ReturnType<typeof sessionPaths>) => {
    await Deno.mkdir(dirname(socket), { recursive: true });
    listener = Deno.listen({ transport: "unix", path: socket });
    void (async () => {
      for await (const conn of listener!) {
        const hello = { t: "Hello", version: 1, schema_hash: "0".repeat(64) };
        await conn.write(encodeFrame(hello)).catch(() => {});
      }
    })();
    // The words of its command line, as those of a VM's process.
    const args = ["-c", "while :; do sleep 0.1; done", "process", basename(dir)];
    child = limitChild(new Deno.Command("sh", { args }).spawn());
  };
  await after(serveProcess, async (supervisor, id) => {
    const vm = supervisor.find(id);
    assertEquals(vm.state.state, "Running");
    assertStringIncludes(vm.state.last_error!, "another version of sbx");
    assert((await Deno.lstat(vm.paths.socket)).isSocket, "its socket stays");
    await supervisor.stop(vm);
    assertEquals((await child!.status).signal, "SIGTERM");
    assert(vm.state.state !== "Running", vm.state.state);
    listener!.close();
  });
});

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
      const misspelled = assertThrows(() => supervisor.find("mv-1"), SbxError);
      assertEquals([misspelled.code, misspelled.hint], [
        "vm.not_found",
        'did you mean "vm-1"? sbx list shows the VMs',
      ]);
      assertEquals(refused.code, "vm.wrong_state");
      assertEquals((await supervisor.purge({})).removed, [], "nobody knows whether it was to be kept");
      const { dir } = supervisor.find(id).paths;
      await supervisor.delete(supervisor.find(name), { force: false });
      await assertRejects(() => Deno.lstat(dir), Deno.errors.NotFound);
      assertEquals(supervisor.list().length, 2);
    }));
}

Deno.test("a VM whose state.json is damaged is Defunct, says why, and can be started, set or deleted", () =>
  after(({ state }) => Deno.writeTextFile(state, "{"), async (supervisor, id) => {
    const { name, status, last_error, available_actions } = supervisor.summary(supervisor.find(id));
    assertEquals([name, status, available_actions], ["vm-0", "Defunct", ["start", "set", "delete"]]);
    assertStringIncludes(last_error!, "state.json is damaged");
    await supervisor.delete(supervisor.find(id), { force: false });
    assertEquals(supervisor.list().length, 2);
  }));

Deno.test("a deleted VM comes back as it was, under another name where its own is taken; one at a time", () =>
  after(() => Promise.resolve(), async (supervisor, id) => {
    const vm = supervisor.find(id);
    await Deno.writeTextFile(`${vm.paths.workspace}/kept`, "work");
    const { name } = vm.record;
    await supervisor.delete(vm, { force: false });
    await assertRejects(() => Deno.lstat(vm.paths.dir), Deno.errors.NotFound);
    const code = (work: Promise<unknown>) => work.then(() => "", (error) => (error as SbxError).code);
    assertEquals(await code(supervisor.restore("nobody")), "vm.not_found");
    const [other] = supervisor.list();
    assertEquals(await code(supervisor.restore(name, other.name)), "vm.name_taken");
    const twice = await Promise.all([code(supervisor.restore(id)), code(supervisor.restore(id, "second"))]);
    assertEquals(twice.toSorted(), ["", "vm.not_found"]);
    const back = supervisor.find(id);
    assertEquals(supervisor.summary(back).status, "Stopped");
    assertEquals(await Deno.readTextFile(`${back.paths.workspace}/kept`), "work");
    assertEquals(
      await Array.fromAsync(Deno.readDir(back.paths.dir), ({ name }) => name).then((all) =>
        all.includes("deleted.json")
      ),
      false,
    );
    await supervisor.delete(back, { force: false, keeps: false });
    assertEquals(await code(supervisor.restore(id)), "vm.not_found");
  }));

Deno.test("a deleted VM that cannot be brought back stays in the bin, as long as it would have", () =>
  after(() => Promise.resolve(), async (supervisor, id, { dir }) => {
    await supervisor.delete(supervisor.find(id), { force: false });
    const note = await Deno.readTextFile(`${dir}/deleted/${id}/deleted.json`);
    const { open } = Registry.prototype;
    Registry.prototype.open = () => Promise.reject(new SbxError("disk.full", "no room"));
    try {
      await assertRejects(() => supervisor.restore(id), SbxError, "no room");
    } finally {
      Registry.prototype.open = open;
    }
    assertEquals(supervisor.list().some((vm) => vm.id === id), false);
    assertEquals(JSON.parse(await Deno.readTextFile(`${dir}/deleted/${id}/deleted.json`)), JSON.parse(note));
    await supervisor.restore(id);
    assertEquals(supervisor.summary(supervisor.find(id)).status, "Stopped");
  }));

Deno.test("a VM into which something was brought is not deleted without force while its work cannot be seen", () =>
  after(async ({ repository }) => {
    // As earlier versions wrote it.
    const unit = { path: "", is_repository: true, work: "a".repeat(40), pulled: {} };
    await Deno.mkdir(repository);
    const record = { version: 1, dir: "/home/me/project", place: "/root/project", units: [unit] };
    await Deno.writeTextFile(`${repository}/record.json`, JSON.stringify(record));
  }, async (supervisor, id) => {
    const vm = supervisor.find(id);
    const listed = (await supervisor.listed()).vms.find((each) => each.id === id)!;
    assertEquals(listed.repositories, [{
      name: "project",
      dir: "/home/me/project",
      place: "/root/project",
      is_repository: true,
      is_read_only: false,
      is_live: false,
      branches: [],
    }]);
    const refused = await assertRejects(() => supervisor.delete(vm, { force: false }), SbxError);
    assertEquals(refused.code, "vm.unlanded");
    assertStringIncludes(refused.message, "cannot be seen: it is Stopped");
    assertStringIncludes(refused.hint!, "sbx start vm-0, then sbx diff vm-0");
    const { removed, kept } = await supervisor.purge({ all: true });
    assertEquals([removed.toSorted(), kept], [["vm-1", "vm-2"], ["vm-0"]]);
    await Deno.writeTextFile(`${vm.paths.repository}/record.json`, "{");
    assertEquals(
      (await assertRejects(() => supervisor.delete(vm, { force: false }), SbxError)).code,
      "vm.unlanded",
    );
    assertEquals(await supervisor.purge({ all: true, force: true }), { removed: ["vm-0"], kept: [] });
    assertEquals(supervisor.list(), []);
    for (const name of ["vm-0", "vm-1", "vm-2"]) await supervisor.restore(name);
    assertEquals(supervisor.list().length, 3);
  }));

Deno.test("a VM whose work takes long to be looked at is deleted by force meanwhile, once", () =>
  after(async ({ repository }) => {
    const place = new Room(repository);
    const unit = { path: "", is_repository: true, work: "a".repeat(40), pulled: {}, store: "0.git" };
    const source = { name: "project", dir: "/home/me/project", place: "/root/project", is_live: true };
    await place.write({ version: 2, sources: [{ ...source, units: [unit] }] });
    await Deno.rename(`${repository}/record.json`, `${repository}/live.json`);
    // It is read when the test wants it, as a guest's work is when the guest wants.
    await new Deno.Command("mkfifo", { args: [`${repository}/record.json`] }).output();
  }, async (supervisor, id, { dir }) => {
    const vm = supervisor.find(id);
    const waiting = assertRejects(() => supervisor.delete(vm, { force: false }), SbxError);
    await supervisor.delete(vm, { force: true });
    const repository = `${dir}/deleted/${id}/repository`;
    await Deno.writeTextFile(`${repository}/record.json`, await Deno.readTextFile(`${repository}/live.json`));
    assertEquals((await waiting).code, "vm.not_found");
    assertEquals(supervisor.list().length, 2);
    await supervisor.restore(id);
  }));

Deno.test("temporary VMs of a run, or that never booted, are removed at the next start; their records stay", async () => {
  const states: [string, Partial<VmRecord>, MachineInfo["state"], boolean][] = [
    ["a run that ended", { persistent: false, scratch_gb: 0 }, "Stopped", true],
    ["a run whose boot failed", { persistent: false, scratch_gb: 0 }, "Defunct", true],
    ["one that never booted", { persistent: false, scratch_gb: 8 }, "Defunct", true],
    [
      "a fork of a run",
      { persistent: false, scratch_gb: 0, forked_from: { session: crypto.randomUUID() } },
      "Stopped",
      false,
    ],
    ["one that booted", { persistent: false, scratch_gb: 8 }, "Stopped", false],
    ["a VM that stays", { persistent: true, scratch_gb: 0 }, "Defunct", false],
  ];
  for (const [what, record, state, isRemoved] of states) {
    await after(async (paths) => {
      const id = basename(paths.dir);
      await writeRecord(paths, { ...recordOf(id, "vm-0"), ...record });
      const boot_stages = what === "one that booted" ? [{ name: "ready", ms: 1 }] : [];
      await writeState(paths, { state, boot_stages, pid: 0 });
      if (state === "Suspended") await Deno.mkdir(paths.suspended);
      await Deno.mkdir(dirname(paths.ledger), { recursive: true });
      await Deno.writeTextFile(`${dirname(paths.ledger)}/kept`, "");
    }, (supervisor, id, home) => {
      assertEquals(supervisor.list().some((vm) => vm.id === id), !isRemoved, what);
      assertEquals(
        Array.from(Deno.readDirSync(`${home.dir}/ledgers/${id}`), ({ name }) => name).includes("kept"),
        true,
      );
    }, isRemoved ? 2 : 3);
  }
});

/** A VM in a registry's memory only. */
function vmOf(id: string, state: Vm["state"]["state"], created_at: string): Vm {
  return {
    record: { ...recordOf(id, `vm-${id.slice(0, 2)}`), created_at },
    paths: {} as Vm["paths"],
    process: new VmProcess("/nonexistent.sock"),
    state: { state, boot_stages: [], pid: 1 },
  };
}

Deno.test("VMs are listed from the oldest, and by id where they were made at the same moment", () => {
  const registry = new Registry(homeOf({ get: () => "/nonexistent" }));
  const [a, b, c] = ["a", "b", "c"].map((letter) => letter.repeat(36));
  const [early, late] = ["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"];
  for (const vm of [vmOf(c, "Running", late), vmOf(b, "Stopped", late), vmOf(a, "Running", late)]) {
    registry.add(vm);
  }
  assertEquals(registry.all().map(({ record }) => record.id), [a, b, c]);
  registry.add(vmOf(c, "Running", early));
  assertEquals(registry.all().map(({ record }) => record.id), [c, a, b]);
  assertEquals(registry.alive().map(({ record }) => record.id), [c, a]);
  assertEquals(registry.alive("other"), []);
});

Deno.test("pages of the list have each VM once, also when the last one of a page is deleted", () => {
  const registry = new Registry(homeOf({ get: () => "/nonexistent" }));
  const ids = ["c", "a", "b", "e", "d"].map((letter) => letter.repeat(36));
  // Two of one moment: the page ends between them.
  const moments = ["01", "02", "02", "03", "04"].map((day) => `2026-01-${day}T00:00:00.000Z`);
  for (const [at, id] of ids.entries()) registry.add(vmOf(id, "Stopped", moments[at]));
  const page = (cursor?: string) => pageOfVms(registry.all(), { limit: 2, cursor });
  const idsOf = ({ vms }: ReturnType<typeof page>) => vms.map(({ record }) => record.id);
  const first = page();
  assertEquals(idsOf(first), ids.slice(0, 2));
  assertEquals(idsOf(page(first.next_cursor)), ids.slice(2, 4));
  registry.remove(registry.get(ids[1]));
  registry.add(vmOf("f".repeat(36), "Booting", "2026-01-05T00:00:00.000Z"));
  const second = page(first.next_cursor);
  assertEquals(idsOf(second), ids.slice(2, 4));
  const last = page(second.next_cursor);
  assertEquals([idsOf(last), last.next_cursor], [[ids[4], "f".repeat(36)], undefined]);
  assertEquals(pageOfVms(registry.all(), {}).vms.length, 5);
  assertEquals(pageOfVms([], { limit: 1 }), { vms: [], next_cursor: undefined });
  for (const cursor of ["", "gone", ids[0], "2026-01-01T00:00:00.000Z_", `x_${ids[0]}`]) {
    assertEquals(assertThrows(() => page(cursor), SbxError).code, "request.invalid");
  }
});

Deno.test("a name that looks like a key is refused, without repeating it", async () => {
  const dir = await Deno.makeTempDir();
  const registry = new Registry(homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined }));
  const error = assertThrows(() => registry.requireName(KEY.anthropic), SbxError);
  assertEquals(error.code, "request.invalid");
  assert(!`${error.message}${error.hint}`.includes(KEY.anthropic));
  registry.requireName("sk-ant");
  await Deno.remove(dir, { recursive: true });
});
