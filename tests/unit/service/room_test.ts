/** Room of all records: order of removal, what stays, export before removal, and the dry run. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { RecordRoom, type RoomParts } from "../../../lib/service/record/room.ts";
import { Sessions } from "../../../lib/service/record/sessions.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { execEvent } from "../../helper/ledger.ts";
import { recordOf } from "../../helper/vm.ts";

const MIB = 1024 ** 2;
const NOW = Date.UTC(2026, 1, 1);

/** A home with three ended sessions of 1, 3 and 2 MiB, from the oldest to the newest. */
class World implements AsyncDisposable {
  readonly values: Record<string, unknown> = { "vm.resources.retention_days": 90 };
  hold: string[] = [];
  unsent = new Set<string>();
  readonly ids: string[] = [];
  readonly sessions: Sessions;
  readonly room: RecordRoom;

  private constructor(readonly dir: string) {
    const home = this.home;
    this.sessions = new Sessions(home);
    const collector = {
      isSent: (id: string) => Promise.resolve(!this.unsent.has(id)),
      release: (id: string) => Promise.resolve(!this.unsent.has(id)),
    };
    const hold = () => this.hold;
    this.room = new RecordRoom({
      home,
      get corp() {
        return {
          state: {
            status: "ok",
            config: { file: { settings: {}, corp: { records: { hold: hold() } } } },
          },
        };
      },
      settings: { resolved: { byId: new Map() }, inForce: (id: string) => this.values[id] },
      registry: { all: () => [] },
      bin: { list: () => Promise.resolve([]) },
      sessions: this.sessions,
      fleet: collector,
      feeds: collector,
    } as unknown as RoomParts);
  }

  get home() {
    return homeOf(new Map([["SBX_HOME", this.dir]]));
  }

  static async make(): Promise<World> {
    const world = new World(await Deno.makeTempDir({ prefix: "sbx-room-" }));
    for (const [at, mib] of [1, 3, 2].entries()) {
      const id = crypto.randomUUID();
      world.ids.push(id);
      const { ledger } = sessionPaths(world.home, id);
      await Deno.mkdir(dirname(ledger), { recursive: true });
      {
        await using writer = await Ledger.open(ledger, { sessionId: id });
        const event = execEvent();
        event.common.session_id = id;
        writer.append({ event });
      }
      await Deno.writeFile(join(world.dir, "ledgers", id, "filler"), new Uint8Array(mib * MIB).fill(7));
      const day = `2026-01-${10 + at}T00:00:00.000Z`;
      world.sessions.put({ ...recordOf(id, `vm${at}`), created_at: day }, day);
    }
    return world;
  }

  names(records: { name: string }[]): string[] {
    return records.map(({ name }) => name);
  }

  async left(): Promise<string[]> {
    return (await this.sessions.list()).map(({ name }) => name).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("without a limit no record goes, and over it the oldest ones do, as the dry run says", async () => {
  await using world = await World.make();
  assertEquals((await world.room.collect(false, NOW)).removed, []);
  world.values["ledger.max_total_mb"] = 5;
  const plan = await world.room.plan(false, NOW);
  assertEquals(world.names(plan.removed), ["vm0", "vm1"]);
  assertEquals(await world.left(), ["vm0", "vm1", "vm2"]);
  const done = await world.room.collect(false, NOW);
  assertEquals(done.removed, plan.removed);
  assertEquals(done.removed[0].reason, "room");
  assertEquals(await world.left(), ["vm2"]);
  assert(world.room.use.records_bytes < 5 * MIB);
  assertEquals(world.room.problems(), []);
});

Deno.test("the largest records go first where the settings say so", async () => {
  await using world = await World.make();
  world.values["ledger.max_total_mb"] = 5;
  world.values["ledger.remove_first"] = "largest";
  assertEquals(world.names((await world.room.collect(false, NOW)).removed), ["vm1"]);
});

Deno.test("records that corp holds or its collectors lack stay, and are an issue", async () => {
  await using world = await World.make();
  world.values["ledger.max_total_mb"] = 1;
  world.hold = [`session:${world.ids[0]}`];
  world.unsent.add(world.ids[1]);
  const { removed, kept } = await world.room.collect(false, NOW);
  assertEquals(world.names(removed), ["vm2"]);
  assertEquals(kept.map(({ name, code }) => [name, code]), [
    ["vm0", "corp.hold"],
    ["vm1", "session.not_sent"],
  ]);
  const held = (await world.room.kept(NOW)).map(({ name }) => name);
  assertEquals(held.sort(), ["vm0", "vm1"]);
  const [issue, ...more] = world.room.problems();
  assertEquals(more, []);
  assertStringIncludes(issue, "more than the 1.0 MB of ledger.max_total_mb: 1 held by corp, 1 not sent");
});

Deno.test("old records go in a collection of all, and each is copied first", async () => {
  await using world = await World.make();
  world.values["vm.resources.retention_days"] = 21;
  const copies = join(world.dir, "copies");
  world.values["ledger.export_dir"] = copies;
  const { removed } = await world.room.collect(true, NOW);
  assertEquals(removed.map(({ name, reason }) => [name, reason]), [["vm0", "retention"]]);
  const [id] = world.ids;
  assert((await verifyLedger(join(copies, id, "session.db"), id)).ok);
});

Deno.test("a record that cannot be copied stays, and is an issue until it can", async () => {
  await using world = await World.make();
  world.values["ledger.max_total_mb"] = 5;
  const file = join(world.dir, "copies");
  await Deno.writeTextFile(file, "in the way");
  world.values["ledger.export_dir"] = file;
  const { removed, kept } = await world.room.collect(false, NOW);
  assertEquals(removed, []);
  assertEquals(kept.map(({ code }) => code), ["session.export", "session.export"]);
  assertEquals(await world.left(), ["vm0", "vm1", "vm2"]);
  assertStringIncludes(world.room.problems().join("\n"), "2 records cannot be removed before a copy is made");
  world.values["ledger.export_dir"] = "relative";
  assertStringIncludes((await world.room.collect(false, NOW)).kept[0].why, "not an absolute path");
  await Deno.remove(file);
  world.values["ledger.export_dir"] = file;
  assertEquals(world.names((await world.room.collect(false, NOW)).removed), ["vm0", "vm1"]);
  assertEquals(world.room.problems(), []);
});

Deno.test("a copy takes its place whole, and is not written through a link", async () => {
  await using world = await World.make();
  world.values["vm.resources.retention_days"] = 21;
  const copies = join(world.dir, "copies"), [id] = world.ids;
  world.values["ledger.export_dir"] = copies;
  const others = join(world.dir, "others");
  await Deno.mkdir(others);
  await Deno.writeTextFile(join(others, "session.db"), "precious");
  await Deno.mkdir(copies);
  await Deno.symlink(others, join(copies, id));
  assertEquals(world.names((await world.room.collect(true, NOW)).removed), ["vm0"]);
  assertEquals(await Deno.readTextFile(join(others, "session.db")), "precious");
  assert((await verifyLedger(join(copies, id, "session.db"), id)).ok);
  assertEquals((await Deno.lstat(join(copies, id))).mode! & 0o777, 0o700);
  assertEquals((await Array.fromAsync(Deno.readDir(copies))).map(({ name }) => name), [id]);
});

Deno.test("an earlier copy stays while a later one is not valid", async () => {
  await using world = await World.make();
  const copies = join(world.dir, "copies"), [id] = world.ids;
  world.values["ledger.export_dir"] = copies;
  await world.room.exportFirst(id);
  const { ledger } = sessionPaths(world.home, id);
  await Deno.writeTextFile(ledger, "damaged");
  const failure = await world.room.exportFirst(id).then(() => undefined, (error) => error);
  assertEquals(failure?.code, "session.export");
  assert((await verifyLedger(join(copies, id, "session.db"), id)).ok);
  assertEquals((await Array.fromAsync(Deno.readDir(copies))).map(({ name }) => name), [id]);
});

Deno.test("a record that corp holds while it is copied stays", async () => {
  await using world = await World.make();
  world.values["vm.resources.retention_days"] = 21;
  const copy = world.room.exportFirst.bind(world.room);
  world.room.exportFirst = async (id) => {
    await copy(id);
    world.hold = [`session:${id}`];
  };
  const { removed, kept } = await world.room.collect(true, NOW);
  assertEquals([removed, kept.map(({ code }) => code)], [[], ["corp.hold"]]);
  assertEquals(await world.left(), ["vm0", "vm1", "vm2"]);
});
