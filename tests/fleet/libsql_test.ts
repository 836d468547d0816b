/** Segments through a libSQL server that breaks off before and after statements, with two receivers of one store. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { checkFleet } from "../../lib/fleet/receive/mod.ts";
import { LibsqlTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { readHeads } from "../../lib/ledger/read/mod.ts";
import { record, SESSION_A, SESSION_B } from "../helper/fleet.ts";
import { HranaServer } from "../helper/hrana.ts";
import { arrived, enrolled, entries, pause, problemsOf, pulling } from "../helper/pulling.ts";
import { Random } from "../helper/random.ts";

const SEED = Number(Deno.env.get("SEED") ?? 1);
const TOKEN = "a-token";
const authorize = (token = TOKEN) => () => Promise.resolve(`Bearer ${token}`);

Deno.test("a libSQL server that breaks off at random: every row once", async () => {
  const dir = await Deno.makeTempDir();
  const store = `${dir}/store`;
  const random = new Random(SEED);
  let faults = 0;
  const fail = (sql: string) => {
    if (!sql.startsWith("CREATE") && random.below(8) === 0) {
      faults++;
      throw new Error("broken off");
    }
  };
  await using server = new HranaServer({ file: `${dir}/server.db`, token: TOKEN, before: fail, after: fail });
  const url = `libsql://127.0.0.1:${server.port}`;
  const keys = [await enrolled(store, "one"), await enrolled(store, "two"), await enrolled(store, "three")];
  await using _first = pulling(store, url, authorize());
  await using _second = pulling(store, url, authorize());
  await Promise.all(keys.map(async (key, at) => {
    const mine = new Random(SEED * 100 + at);
    for (const session of [SESSION_A, SESSION_B]) {
      const path = `${dir}/${at}-${session}.db`;
      for (let part = 0; part < 3; part++) {
        await record(path, session, entries(session, 20));
        for (let isSent = false; !isSent; await pause(10)) {
          const cursors = mine.below(3) === 0
            ? `${dir}/none/${at}-${mine.below(1e9)}`
            : `${dir}/cursors/${at}`;
          const shipper = new Shipper({ dir: cursors, key, target: new LibsqlTarget(url, authorize()) });
          isSent = await shipper.ship(session, path).then(() => true, (error) => {
            assertEquals(error.code, "fleet.unavailable", error.message);
            return false;
          });
        }
      }
      const heads = await readHeads(path);
      const shipper = new Shipper({
        dir: `${dir}/end/${at}`,
        key,
        target: new LibsqlTarget(url, authorize()),
      });
      for (let isTold = false; !isTold;) {
        isTold = await shipper.end(session, heads, false).then(() => true, () => false);
      }
    }
  }));
  for (const [at, key] of keys.entries()) {
    for (const session of [SESSION_A, SESSION_B]) {
      await arrived(store, key, session, `${dir}/${at}-${session}.db`);
    }
  }
  assert(faults > 0);
  assertEquals(await problemsOf(store), []);
  // The ends arrive too.
  for (;; await pause(50)) {
    const { machines } = await checkFleet(store);
    const states = machines.flatMap(({ sessions }) => sessions.map(({ state }) => state));
    if (states.every((state) => state === "complete")) break;
  }
  const stranger = new LibsqlTarget(url, authorize("another"));
  const ship = () =>
    new Shipper({ dir: `${dir}/x`, key: keys[0], target: stranger }).ship(
      SESSION_A,
      `${dir}/0-${SESSION_A}.db`,
    );
  const error = await assertRejects(ship, SbxError);
  assertEquals(error.code, "fleet.unavailable");
  assert(!error.message.includes("another "), "the token is in no message");
  await Deno.remove(dir, { recursive: true });
});
