/** Ledgers that cannot be opened where they are. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { copyLedger } from "../../../lib/ledger/copy.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents } from "../../../lib/ledger/read/mod.ts";
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
