/**
 * Sessions are announced in the register before their ledger exists, and leave a
 * tombstone when their record goes.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { readRegister, registerPath } from "../../../lib/fleet/register/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { ensureSigningKey } from "../../../lib/release/signing/mod.ts";
import { Sessions } from "../../../lib/service/record/sessions.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { execEvent } from "../../helper/ledger.ts";
import { recordOf } from "../../helper/vm.ts";

async function inHome(work: (home: Home, sessions: Sessions) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    await work(home, new Sessions(home));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function write(home: Home, id: string): Promise<void> {
  const { ledger } = sessionPaths(home, id);
  await Deno.mkdir(dirname(ledger), { recursive: true });
  await using writer = await Ledger.open(ledger, { sessionId: id });
  writer.append({ event: execEvent() });
}

async function entriesOf(home: Home) {
  const { entries, problems } = await readRegister(
    registerPath(home),
    (await ensureSigningKey(home)).publicKey,
  );
  assertEquals(problems, []);
  return entries;
}

Deno.test("a removed record leaves its last heads in the register, and no ledger", () =>
  inHome(async (home, sessions) => {
    const id = crypto.randomUUID();
    await sessions.begin(id);
    await write(home, id);
    sessions.put(recordOf(id, "one"), "2026-01-02T00:00:00.000Z");
    const by = { user: "ann", client: "sbx" };
    const { events, bytes } = await sessions.remove(id, { reason: "person", by });
    assertEquals(events, 1);
    assert(bytes > 4096);
    const [begun, removed] = await entriesOf(home);
    assertEquals(begun.kind, "begun");
    if (removed.kind !== "removed") throw new Error(removed.kind);
    assertEquals([removed.session_id, removed.removal.heads?.events, removed.removal.by], [id, 1, by]);
    assertEquals(await sessions.get(id), undefined);
    await assertRejects(() => Deno.stat(join(home.dir, "ledgers", id)), Deno.errors.NotFound);
  }));

Deno.test("an old session that the register lacks is found, and retention leaves a tombstone too", () =>
  inHome(async (home, sessions) => {
    const [old, held, never] = [1, 2, 3].map(() => crypto.randomUUID());
    for (const id of [old, held]) await write(home, id);
    await Deno.mkdir(join(home.dir, "ledgers", never), { recursive: true });
    for (const id of [old, held, never]) sessions.put(recordOf(id, "x"), "2026-01-02T00:00:00.000Z");
    const released: string[] = [];
    const removed = await sessions.prune(30, new Set(), {
      holds: ({ id }) => id === held,
      release: (id) => Promise.resolve(released.push(id) > 0),
    });
    assertEquals(removed.sort(), [old, never].sort());
    assertEquals(released, [old], "collectors forget where they are in a released record");
    const entries = await entriesOf(home);
    const kinds = entries.map((entry) => "session_id" in entry ? [entry.kind, entry.session_id] : []);
    assertEquals(
      new Set(kinds.filter(([kind]) => kind === "found").map(([, id]) => id)),
      new Set([old, held]),
    );
    assertEquals(kinds.filter(([kind]) => kind === "removed"), [["removed", old]]);
    assertEquals((await sessions.ids()).sort(), [held]);
  }));

Deno.test("a record with rows that corp's server lacks is not collected", () =>
  inHome(async (home, sessions) => {
    const id = crypto.randomUUID();
    await write(home, id);
    assert(await sessions.isCollected(id));
    await Deno.writeTextFile(`${sessionPaths(home, id).ledger}.uncollected`, "{}");
    assert(!await sessions.isCollected(id));
  }));

Deno.test("a record whose tombstone cannot be written stays", () =>
  inHome(async (home, sessions) => {
    const id = crypto.randomUUID();
    await sessions.begin(id);
    await write(home, id);
    sessions.put(recordOf(id, "one"), "2026-01-02T00:00:00.000Z");
    await Deno.remove(registerPath(home));
    await Deno.mkdir(registerPath(home));
    const error = await assertRejects(() => sessions.remove(id, { reason: "person" }), SbxError);
    assertEquals(error.code, "register.unavailable");
    assert((await Deno.stat(sessionPaths(home, id).ledger)).isFile);
    assertEquals((await sessions.get(id))?.id, id);
    // Nor does a VM fail for it.
    await sessions.begin(crypto.randomUUID());
  }));
