/** Full disks: of a machine and of a ClickHouse server. That of a receiver is in fault_test.ts. */
import { assert, assertEquals } from "@std/assert";
import { ClickHouseClient, parseClickHouse } from "../../lib/fleet/clickhouse/mod.ts";
import { FleetMachine } from "../../lib/fleet/machine/mod.ts";
import { readEnd } from "../../lib/fleet/receive/mod.ts";
import { FolderTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { sessionFolder } from "../../lib/fleet/store.ts";
import { ClickHouseLoader } from "../../lib/fleet/table/mod.ts";
import { readHeads } from "../../lib/ledger/read/mod.ts";
import { ClickHouseProcess } from "../helper/clickhouse_server.ts";
import { record, SESSION_A } from "../helper/fleet.ts";
import { enrolled, entries, problemsOf } from "../helper/pulling.ts";

Deno.test({
  name: "a machine whose disk is full ships all the same, and repeats nothing when it has space again",
  ignore: Deno.uid() !== 0,
  async fn() {
    const dir = await Deno.makeTempDir();
    const store = `${dir}/store`;
    const key = await enrolled(store, "laptop");
    const path = `${dir}/home/ledgers/${SESSION_A}/session.db`;
    await Deno.mkdir(`${dir}/home/ledgers/${SESSION_A}`, { recursive: true });
    await Deno.mkdir(`${dir}/home/fleet`);
    await record(path, SESSION_A, entries(SESSION_A, 100));
    await run("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", `${dir}/home/fleet`]);
    try {
      await fill(`${dir}/home/fleet/full`);
      const machine = await FleetMachine.open({
        home: { dir: `${dir}/home` },
        key,
        target: new FolderTarget(store),
        version: "1",
        isRunning: () => true,
      });
      const error = await machine.round();
      assert(error, "it is told");
      const end = await readEnd(sessionFolder(store, key.publicKey.id, SESSION_A));
      assertEquals(end, await readHeads(path), "the rows are there nevertheless");
      await Deno.remove(`${dir}/home/fleet/full`);
      await record(path, SESSION_A, entries(SESSION_A, 50));
      assertEquals(await machine.round(), undefined);
      assertEquals(
        await readEnd(sessionFolder(store, key.publicKey.id, SESSION_A)),
        await readHeads(path),
      );
      assertEquals(await problemsOf(store), []);
    } finally {
      await run("umount", [`${dir}/home/fleet`]);
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test({
  name: "a ClickHouse server whose disk is full gets the rows later, each once",
  ignore: Deno.uid() !== 0,
  async fn() {
    const dir = await Deno.makeTempDir();
    const store = `${dir}/store`;
    const disk = `${dir}/disk`;
    await Deno.mkdir(disk);
    await run("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", disk]);
    const server = await ClickHouseProcess.start([], disk);
    try {
      const key = await enrolled(store, "laptop");
      const client = new ClickHouseClient(parseClickHouse(server.url));
      const loader = new ClickHouseLoader(store, client);
      await loader.prepare();
      await record(`${dir}/a.db`, SESSION_A, entries(SESSION_A, 2000, true));
      const target = new FolderTarget(store);
      await new Shipper({ dir: `${dir}/cursors`, key, target }).ship(SESSION_A, `${dir}/a.db`);
      await fill(`${disk}/full`);
      const failed = await loader.round().then(() => undefined, (error) => error);
      assert(failed, "the server has no space");
      await Deno.remove(`${disk}/full`);
      for (let tries = 0;; tries++) {
        const error = await loader.round().then(() => undefined, (error) => error);
        if (!error) break;
        if (tries > 50) throw error;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      const [{ n, places }] = await client.rows(
        "SELECT count() AS n, uniqExact(sequence) AS places FROM events FINAL",
      );
      assertEquals([n, places], [2000, 2000]);
      assertEquals((await client.rows("SELECT count() AS n FROM outcomes FINAL"))[0].n, 2000);
    } finally {
      await server.kill();
      await run("umount", [disk]);
      await Deno.remove(dir, { recursive: true });
    }
  },
});

/** Writes a file until the disk is full. */
async function fill(path: string): Promise<void> {
  using file = await Deno.open(path, { write: true, create: true });
  const bytes = new Uint8Array(4096);
  try {
    for (;;) await file.write(bytes);
  } catch (error) {
    assert(String(error).includes("28"), String(error));
  }
}

async function run(command: string, args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, stderr: "piped" }).output();
  assert(success, new TextDecoder().decode(stderr));
}
