/** Ledgers that cannot be opened, at all or where they are. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { copyLedger } from "../../../lib/ledger/copy.ts";
import { DatabaseError } from "../../../lib/ledger/database.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents } from "../../../lib/ledger/read/mod.ts";
import { Writer } from "../../../lib/ledger/writer.ts";
import { execEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

Deno.test("a copy has the writes that are not folded in yet, is this user's alone, and goes away", () =>
  withLedgerPath(async (path) => {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    for (let at = 0; at < 3; at++) ledger.append({ event: execEvent(`echo ${at}`) });
    await ledger.flush();
    assert(Deno.statSync(`${path}-wal`).size > 0);
    Deno.chmodSync(path, 0o644);
    const copy = copyLedger(path);
    assertEquals((await readEvents(copy.path)).events.length, 3);
    for (const file of [copy.path, dirname(copy.path)]) {
      assertEquals(Deno.statSync(file).mode! & 0o077, 0, file);
    }
    copy.remove();
    assertThrows(() => Deno.statSync(dirname(copy.path)), Deno.errors.NotFound);
  }));

Deno.test("a ledger that cannot be copied is unavailable, and leaves nothing", () => {
  const folder = Deno.makeTempDirSync();
  const before = Deno.env.get("TMPDIR");
  try {
    Deno.env.set("TMPDIR", folder);
    const { code, hint } = assertThrows(() => copyLedger(`${folder}/none.db`), SbxError);
    assertEquals([code, hint?.startsWith("copy it")], ["ledger.unavailable", true]);
    assertEquals([...Deno.readDirSync(folder)], []);
  } finally {
    if (before === undefined) Deno.env.delete("TMPDIR");
    else Deno.env.set("TMPDIR", before);
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("a writer whose settings fail keeps no connection", () =>
  withLedgerPath(async (path) => {
    await Deno.writeTextFile(path, "not a database, but long enough for the header of one".repeat(100));
    const open = async () => {
      const targets = await Array.fromAsync(
        Deno.readDir("/proc/self/fd"),
        ({ name }) => Deno.readLink(`/proc/self/fd/${name}`).catch(() => ""),
      );
      return targets.filter((target) => target === path).length;
    };
    const writer = new Writer(path);
    for (let tries = 0; tries < 3; tries++) assertThrows(() => writer.open(SESSION), DatabaseError);
    assertEquals(await open(), 0);
  }));
