/** ClickHouse as the place of tables: killed under load, tables of an earlier sbx, logins. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../../lib/fleet/clickhouse/mod.ts";
import { FolderTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { ClickHouseLoader, hunt, openRecords } from "../../lib/fleet/table/mod.ts";
import { ir, rule } from "../helper/detection.ts";
import { ClickHouseProcess } from "../helper/clickhouse_server.ts";
import { record, SESSION_A, SESSION_B } from "../helper/fleet.ts";
import { arrived, enrolled, entries, pause, problemsOf } from "../helper/pulling.ts";
import { Random } from "../helper/random.ts";
import { ReceiverProcess } from "../helper/receiver_process.ts";

const SEED = Number(Deno.env.get("SEED") ?? 1);

async function countIn(url: string): Promise<unknown> {
  await using over = await openRecords(url);
  const [row] = await over.engine.rows(
    `SELECT count() AS events, count(DISTINCT machine_id, session_id, sequence) AS places FROM ${
      over.table!("events")
    } AS e`,
  );
  return row;
}

Deno.test("a server and a receiver that are killed under load: every row once, in the store and in the tables", async () => {
  const dir = await Deno.makeTempDir();
  const store = `${dir}/store`;
  const random = new Random(SEED);
  await using server = await ClickHouseProcess.start();
  const start = () => new ReceiverProcess(store, ["--clickhouse", server.url]).ready();
  let receiver = await start();
  const sessions = [SESSION_A, SESSION_B];
  const keys = await Promise.all(Array.from({ length: 8 }, (_, at) => enrolled(store, `machine-${at}`)));
  let isDone = false;
  const kills = { server: 0, receiver: 0 };
  const killing = (async () => {
    while (!isDone) {
      await pause(1500 + random.below(1500));
      if (random.below(2) === 0) {
        await server.kill();
        await server.begin();
        kills.server++;
      } else {
        await receiver.kill();
        receiver = await start();
        kills.receiver++;
      }
    }
  })();
  await Promise.all(keys.map(async (key, at) => {
    const mine = new Random(SEED * 1000 + at);
    for (const session of sessions) {
      const path = `${dir}/${at}-${session}.db`;
      for (let part = 0; part < 3; part++) {
        await record(path, session, entries(session, 20));
        for (let isSent = false; !isSent; await pause(100)) {
          const cursors = mine.below(4) === 0
            ? `${dir}/none/${at}-${mine.below(1e9)}`
            : `${dir}/cursors/${at}`;
          const target = new FolderTarget(store);
          isSent = await new Shipper({ dir: cursors, key, target }).ship(session, path).then(
            () => true,
            (error) => {
              assertEquals(error.code, "fleet.unavailable", error.message);
              return false;
            },
          );
        }
      }
    }
  }));
  for (const [at, key] of keys.entries()) {
    for (const session of sessions) await arrived(store, key, session, `${dir}/${at}-${session}.db`);
  }
  isDone = true;
  await killing;
  const all = keys.length * sessions.length * 60;
  for (;;) {
    const count = await countIn(server.url).catch(() => undefined) as { events: number; places: number };
    if (count?.places === all) {
      assertEquals(count.events, all, "a row is there twice");
      break;
    }
    await pause(200);
  }
  await receiver.kill();
  assertEquals(await problemsOf(store), []);
  assert(kills.server + kills.receiver > 0);
  console.log(`  ${kills.server} kills of the server, ${kills.receiver} of the receiver`);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a server that refuses the password takes no rows, and one with it takes them", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await ClickHouseProcess.start(["fleet", "pa:ss"]);
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  await record(`${dir}/a.db`, SESSION_A, entries(SESSION_A, 2));
  await new Shipper({ dir: `${dir}/cursors`, key, target: new FolderTarget(store) }).ship(
    SESSION_A,
    `${dir}/a.db`,
  );
  const stranger = new ClickHouseLoader(store, new ClickHouseClient(parseClickHouse(server.url)));
  const error = await assertRejects(() => stranger.prepare(), SbxError);
  assertEquals(error.code, "fleet.query.failed");
  assert(error.message.includes("status 403"), error.message);
  const loader = new ClickHouseLoader(
    store,
    new ClickHouseClient(parseClickHouse(server.url), server.authorize),
  );
  await loader.prepare();
  assertEquals((await loader.round()).events, 2);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("tables of an earlier sbx are hunted through, and get their columns when rows are loaded", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await ClickHouseProcess.start();
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  const client = new ClickHouseClient(parseClickHouse(server.url));
  const loader = new ClickHouseLoader(store, client);
  await loader.prepare();
  await client.run("ALTER TABLE events DROP COLUMN http_request_host, DROP COLUMN http_request_git_service");
  await client.run("ALTER TABLE events ADD COLUMN of_tomorrow String");
  const packs = [ir([
    rule("host", { "http.request.host": "host1.example.com" }),
    rule("status", { "http.response.status": 200 }),
  ])];
  const found = async () => {
    await using over = await openRecords(server.url);
    return (await hunt(over, packs)).map(({ rule_id }) => rule_id).sort();
  };
  assertEquals(await found(), []);
  await record(`${dir}/a.db`, SESSION_A, entries(SESSION_A, 2));
  await new Shipper({ dir: `${dir}/cursors`, key, target: new FolderTarget(store) }).ship(
    SESSION_A,
    `${dir}/a.db`,
  );
  assertEquals((await assertRejects(() => loader.round(), SbxError)).code, "fleet.query.failed");
  const next = new ClickHouseLoader(store, client);
  await next.prepare();
  assertEquals((await next.round()).events, 2);
  assertEquals(await found(), ["host", "status", "status"]);
  // A server that was restored from a backup: what it lost is loaded again.
  await client.run("TRUNCATE TABLE events");
  assertEquals((await new ClickHouseLoader(store, client).round()).segments, 1);
  assertEquals(await found(), ["host", "status", "status"]);
  assertEquals((await client.rows("SELECT count() AS n FROM outcomes FINAL"))[0].n, 2);
  await Deno.remove(dir, { recursive: true });
});
