/** Files that a person moves into and out of a stopped VM: the rules hold, and its record has them. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { userName } from "../../../lib/base/user/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { readEvents, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { type FileParts, Service, VmFiles } from "../../../lib/service/mod.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { exclusive } from "../../../lib/service/vm/vm_states.ts";
import { sessionPaths, writeContract, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { contractOf } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";

const RULES = `
[profiles.rules.no-keys]
action = "block"
match = 'file.activity.operation == "import" && file.activity.name.endsWith(".key")'
reason = "no keys"
[profiles.rules.ask-dumps]
action = "ask"
match = 'file.activity.operation == "export" && file.activity.name == "dump"'
reason = "dumps leave by hand"
`;
const CORP = `
[corp.rules.no-exports]
action = "block"
match = 'file.activity.operation == "export"'
reason = "nothing leaves"
`;

interface World {
  home: Home;
  service: Service;
  vm: Vm;
  files: VmFiles;
  /** events of its record, which is closed */
  events(): ReturnType<typeof readEvents>;
}

async function withVm(work: (world: World) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const id = crypto.randomUUID();
  const paths = sessionPaths(home, id);
  for (const path of [paths.workspace, paths.snapshots, dirname(paths.ledger)]) {
    await Deno.mkdir(path, { recursive: true });
  }
  await writeRecord(paths, recordOf(id, "dev"));
  await writeState(paths, { state: "Stopped", boot_stages: [], pid: 0 });
  await writeContract(paths, contractOf(RULES));
  const corp = new CorpStore(home, { managed: `${dir}/corp.toml` });
  const definitions = await loadDefinitions({ get: () => undefined });
  const service = new Service({
    home,
    corp,
    settings: await SettingsStore.open({ home, corp, definitions }),
  });
  await service.supervisor.load();
  const vm = service.supervisor.find("dev");
  const parts: FileParts = {
    ready: () => Promise.reject(new SbxError("vm.wrong_state", "not running")),
    records: service.records,
  };
  try {
    await work({
      home,
      service,
      vm,
      files: new VmFiles(parts, vm, { client: "test", trace_id: "a".repeat(32) }),
      events: async () => {
        await vm.still?.close();
        return await readEvents(paths.ledger, {});
      },
    });
  } finally {
    await service.close();
    await service.sessions.list();
    await Deno.remove(dir, { recursive: true });
  }
}

const stream = (text: string) => new Response(text).body!;
const textOf = async ({ body }: { body: ReadableStream<Uint8Array> }) =>
  await new Response(body as BodyInit).text();

Deno.test("files into and out of a stopped VM are on its record, sealed, with user, client, size and hash", () =>
  withVm(async ({ vm, files, events }) => {
    await files.write("a/b.txt", stream("hello"));
    await files.makeFolder("/workspace/c");
    await files.makeLink("link", "a/b.txt");
    assertEquals(await textOf(await files.open("a/b.txt")), "hello");
    const found = (await events()).events;
    const blake = blake3(new TextEncoder().encode("hello"));
    assertEquals(
      found.map(({ common: { actor, labels = {}, trace_id }, file }) => [
        actor,
        file!.activity.operation,
        file!.activity.path,
        file!.activity.byte_count,
        labels.client,
        labels.blake3 === blake,
        trace_id === "a".repeat(32) && labels.user !== undefined,
      ]),
      [
        ["host", "import", "/workspace/a/b.txt", 5, "test", true, true],
        ["host", "import", "/workspace/c", 0, "test", false, true],
        ["host", "import", "/workspace/link", 7, "test", false, true],
        ["host", "export", "/workspace/a/b.txt", 5, "test", true, true],
      ],
    );
    const verdict = await verifyLedger(vm.paths.ledger);
    assert(verdict.ok && verdict.sealed, JSON.stringify(verdict));
  }));

Deno.test("rules hold for a stopped VM before a byte moves, and an ask is refused", () =>
  withVm(async ({ vm, files, events }) => {
    const refused = await assertRejects(() => files.write("host.key", stream("secret")), SbxError, "no keys");
    assertEquals(refused.code, "policy.blocked");
    assertEquals([...Deno.readDirSync(vm.paths.workspace)], []);
    await Deno.writeTextFile(join(vm.paths.workspace, "dump"), "rows");
    const { message } = await assertRejects(() => files.open("dump"), SbxError);
    assertStringIncludes(message, "no person can be asked");
    const decisions = (await events()).events.map(({ decision }) => decision);
    assertEquals(decisions, ["block", "block"]);
  }));

Deno.test("corp's rules of now hold, also those that came after its last start", () =>
  withVm(async ({ home, service, vm, files }) => {
    await Deno.writeTextFile(join(vm.paths.workspace, "f"), "text");
    await Deno.writeTextFile(join(home.dir, "corp.toml"), CORP);
    await service.corp.load();
    await assertRejects(() => files.open("f"), SbxError, "nothing leaves");
  }));

Deno.test("the record is closed before work on the VM's life, and refused to files meanwhile", () =>
  withVm(async ({ vm, files, events }) => {
    await Promise.all(["a", "b", "c"].map((name) => files.write(name, stream(name))));
    await exclusive(vm, "start", async () => {
      await Deno.lstat(`${vm.paths.ledger}.seal`);
      assertEquals((await assertRejects(() => files.write("d", stream("d")), SbxError)).code, "vm.busy");
    });
    await files.write("e", stream("e"));
    assertEquals((await events()).events.length, 4);
  }));

Deno.test("a record that cannot be opened refuses files, and names the VM's way on", () =>
  withVm(async ({ vm, files }) => {
    await Deno.writeTextFile(vm.paths.contract, "{");
    const { code } = await assertRejects(() => files.write("a", stream("a")), SbxError);
    assertEquals(code, "session.contract");
    assertEquals([...Deno.readDirSync(vm.paths.workspace)], []);
  }));

Deno.test("a snapshot of a stopped VM and its restore are on its record, with who, size and hash", () =>
  withVm(async ({ service, vm, events }) => {
    await Deno.writeTextFile(join(vm.paths.workspace, "f"), "text");
    const made = await service.snapshots.create(vm, "first", { client: "test" });
    await Deno.writeTextFile(join(vm.paths.workspace, "f"), "other text");
    await service.snapshots.restore(vm, made.id, undefined, { client: "test" });
    const found = (await events()).events;
    assertEquals(found.map(({ file }) => [file!.activity.operation, file!.activity.byte_count]), [
      ["export", 4],
      ["import", 4],
    ]);
    // The hash of all that the snapshot is made of: its manifest below the first line,
    // which has the hash of each file.
    const manifest = await Deno.readTextFile(join(vm.paths.snapshots, `${made.id}.manifest`));
    const body = manifest.slice(manifest.indexOf("\n") + 1);
    assertStringIncludes(body, blake3(new TextEncoder().encode("text")));
    for (const { common: { labels = {} } } of found) {
      assertEquals([labels.snapshot, labels.client, labels.user], [made.id, "test", userName()]);
      assertEquals(labels.blake3, blake3(new TextEncoder().encode(body)));
    }
  }));

Deno.test("a person lifts the hold of a stopped VM, on record, as far as corp allows it", () =>
  withVm(async ({ home, service: { supervisor, records, corp }, vm, events }) => {
    const by = { user: "ann", client: "test" };
    const lift = () => supervisor.lift(vm, by, () => records.lift(vm, by));
    assertEquals((await assertRejects(lift, SbxError)).code, "response.none");
    const cause = {
      finding_id: "f",
      event_id: "000000000001",
      rule_id: "exec-nc",
      severity: "high" as const,
      title: "nc",
    };
    const response = {
      since_unix_ms: 1,
      actions: [{ action: "pause" as const, by: "corp" as const, cause }],
      notes: [],
    };
    await Deno.writeTextFile(vm.paths.response, JSON.stringify(response));
    vm.state = { ...vm.state, response };
    assertEquals(supervisor.summary(vm).available_actions, ["set", "delete"]);
    assertEquals((await assertRejects(() => supervisor.start(vm), SbxError)).code, "vm.held");
    assertStringIncludes(supervisor.summary(vm).last_error!, "sbx lift dev lifts it");

    await Deno.writeTextFile(
      join(home.dir, "corp.toml"),
      '[detection.response.severity]\nmedium = ["pause"]\n',
    );
    await corp.load();
    assertEquals((await assertRejects(lift, SbxError)).code, "response.corp");
    await Deno.remove(join(home.dir, "corp.toml"));
    await corp.load();
    await vm.still?.close();
    await lift();
    assertEquals(supervisor.summary(vm).response, undefined);
    assert(supervisor.summary(vm).available_actions.includes("start"));
    const { events: [event] } = await events();
    assertEquals([event.process?.activity.command, event.common.labels.user], ["sbx-response lift", "ann"]);
  }));

Deno.test("a hold outlives a restart of the service, a new name, a deletion, and work on the VM's files", () =>
  withVm(async ({ home, service, vm }) => {
    await Deno.writeTextFile(join(vm.paths.workspace, "f"), "text");
    const snapshot = await service.snapshots.create(vm, "first", { client: "test" });
    const cause = { finding_id: "f", event_id: "e", rule_id: "nc", severity: "high" as const, title: "nc" };
    const hold = { since_unix_ms: 1, actions: [{ action: "pause", by: "profile", cause }], notes: [] };
    await Deno.writeTextFile(vm.paths.response, JSON.stringify(hold));
    const { supervisor } = service;
    const requireHeld = async (name: string) => {
      const held = supervisor.find(name);
      assertEquals(supervisor.summary(held).response as unknown, hold, name);
      assertEquals((await assertRejects(() => supervisor.start(held), SbxError)).code, "vm.held");
      assertEquals((await assertRejects(() => supervisor.fork(held, {}), SbxError)).code, "vm.held");
      const copy = { from: name, profile_id: "code" };
      assertEquals((await assertRejects(() => supervisor.create(copy), SbxError)).code, "vm.held");
    };
    // The next service finds it, though no report of it was left.
    await supervisor.load();
    await requireHeld("dev");
    await service.snapshots.restore(supervisor.find("dev"), snapshot.id, undefined, { client: "test" });
    await requireHeld("dev");
    await supervisor.find("dev").still?.close();
    supervisor.find("dev").record.persistent = false;
    await supervisor.save(supervisor.find("dev"), "other");
    await requireHeld("other");
    await supervisor.delete(supervisor.find("other"), { force: true });
    await supervisor.restore("other", "again");
    await requireHeld("again");
    assertEquals(sessionPaths(home, supervisor.find("again").record.id).response, vm.paths.response);
  }));
