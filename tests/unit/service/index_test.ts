/** The index of sessions, `main.db`: one that is damaged is set aside and made anew. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { SessionIndex } from "../../../lib/ledger/read/mod.ts";
import { Sessions } from "../../../lib/service/record/sessions.ts";
import { sessionPaths, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { execEvent } from "../../helper/ledger.ts";
import { recordOf } from "../../helper/vm.ts";

const [KEPT, GONE] = [crypto.randomUUID(), crypto.randomUUID()];
/** Records of the two; `GONE` is older, so that their order is the same before and after a rebuild. */
const kept = recordOf(KEPT, "kept");
const gone = { ...recordOf(GONE, "gone"), created_at: "2026-01-02T00:00:00.000Z" };

/** A home with one VM that is there and one that has left its ledger. */
async function inHome(work: (home: Home, sessions: Sessions) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  try {
    for (const id of [KEPT, GONE]) {
      const { ledger } = sessionPaths(home, id);
      await Deno.mkdir(dirname(ledger), { recursive: true });
      await using writer = await Ledger.open(ledger, { sessionId: id });
      const event = execEvent();
      event.common.timestamp_unix_ms = Date.UTC(2026, 0, 2);
      writer.append({ event });
    }
    const paths = sessionPaths(home, KEPT);
    await Deno.mkdir(paths.dir, { recursive: true });
    await writeRecord(paths, kept);
    await writeState(paths, { state: "Running", boot_stages: [], pid: 1 });
    const sessions = new Sessions(home);
    sessions.put(kept);
    sessions.put(gone, new Date().toISOString());
    await sessions.list();
    await work(home, sessions);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function asideOf({ dir }: Home): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  return names.filter((name) => /^main\.db\.damaged-[\dTZ-]+$/.test(name));
}

async function check(home: Home, sessions: Sessions): Promise<void> {
  const [first, second] = await sessions.list();
  assertEquals([first.id, first.name, first.ended_at], [KEPT, "kept", undefined]);
  assertEquals([second.id, second.created_at], [GONE, "2026-01-02T00:00:00.000Z"]);
  assert(second.ended_at !== undefined && second.profile_id !== "unknown");
  assertEquals(await sessions.findByName("kept"), KEPT);
  assertEquals((await asideOf(home)).length, 1, "what was damaged is kept");
}

Deno.test("an index that is no database is made anew of ledgers and VMs", () =>
  inHome(async (home) => {
    await Deno.writeTextFile(join(home.dir, "main.db"), "no database\n".repeat(1000));
    for (const tail of ["-wal", "-shm"]) await Deno.remove(join(home.dir, `main.db${tail}`)).catch(() => {});
    const error = await assertRejects(() => SessionIndex.open(join(home.dir, "main.db")));
    assertEquals((error as { code?: string }).code, "index.damaged");
    await check(home, new Sessions(home));
  }));

Deno.test("one that is damaged while it is in use is made anew, once, whoever asks", () =>
  inHome(async (home, sessions) => {
    const path = join(home.dir, "main.db");
    await Deno.truncate(`${path}-wal`, 0);
    // Without the index of the log, the open connection reads again instead of answering from its memory.
    using index = await Deno.open(`${path}-shm`, { write: true });
    await index.write(new Uint8Array(136));
    using file = await Deno.open(path, { write: true });
    await file.write(new TextEncoder().encode("no database\n".repeat(1000)));
    const asked = await Promise.all([sessions.list(), sessions.findByName("kept"), sessions.list()]);
    assertEquals(asked[0].map(({ id }) => id), [KEPT, GONE]);
    assertEquals(asked[1], KEPT);
    await check(home, sessions);
    sessions.put(recordOf(crypto.randomUUID(), "later"));
    assertEquals((await sessions.list()).length, 3);
  }));

Deno.test("sessions that began at the same moment are listed in the order of their ids", () =>
  inHome(async (_home, sessions) => {
    const created_at = "2026-01-03T00:00:00.000Z";
    const ids = Array.from({ length: 5 }, () => crypto.randomUUID());
    for (const id of ids) sessions.put({ ...recordOf(id, "same"), created_at });
    const listed = (await sessions.list()).filter(({ name }) => name === "same").map(({ id }) => id);
    assertEquals(listed, ids.toSorted());
    assertEquals(await sessions.findByName("same"), ids.toSorted()[0]);
  }));
