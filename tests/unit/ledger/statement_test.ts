/** Statements of the host, and heads of the chains. */
import { assert, assertEquals } from "@std/assert";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readHeads, readHeadsAt, readStatements, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { execEvent, runSql, select, SESSION, withLedgerPath, writeEvents } from "../../helper/ledger.ts";
import { fromRoot } from "../../helper/repo.ts";

const STATEMENT = { statement_id: "0123456789ab", kind: "boot", at_unix_ms: 1 };

async function writeStatement(path: string): Promise<void> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  ledger.append({ event: execEvent() });
  ledger.add({ rows: [{ table: "statements", record: STATEMENT }] });
}

Deno.test("a statement is in the record, bound by the journal", () =>
  withLedgerPath(async (path) => {
    await writeStatement(path);
    assertEquals(await readStatements(path, 1), [STATEMENT]);
    assertEquals(await readStatements(path, 0), []);
    assertEquals((await verifyLedger(path)).ok, true);
    for (
      const change of [
        "UPDATE statements SET record = replace(record, 'boot', 'xoot')",
        "UPDATE statements SET kind = 'contract'",
        "DELETE FROM statements",
        "INSERT INTO statements VALUES ('b', 'boot', '{}', 'x')",
        "PRAGMA user_version = 3; DROP TABLE statements",
      ]
    ) {
      const copy = `${path}.${change.length}`;
      await Deno.copyFile(path, copy);
      await runSql(copy, change);
      assertEquals((await verifyLedger(copy)).ok, false, change);
    }
  }));

Deno.test("a ledger of version 3 gets statements, and keeps its journal", () =>
  withLedgerPath(async (path) => {
    for (const end of ["", ".seal"]) await Deno.copyFile(fromRoot(`fixtures/ledger/v2.db${end}`), path + end);
    const [{ session_id }] = await select(path, "SELECT session_id FROM ledger_info");
    const sessionId = String(session_id);
    await (await Ledger.open(path, { sessionId })).close();
    // As version 3 left it.
    await runSql(path, "DROP TABLE statements; PRAGMA user_version = 3");
    const [before] = await select(path, "SELECT count(*) AS rows FROM journal");
    await Deno.remove(`${path}.seal`);
    assertEquals((await verifyLedger(path)).ok, true);
    assertEquals(await readStatements(path, 100), []);
    await (await Ledger.open(path, { sessionId })).close();
    assertEquals(await select(path, "SELECT count(*) AS rows FROM journal"), [before]);
    assertEquals((await verifyLedger(path)).ok, true);
  }));

Deno.test("heads of a ledger are those that it had at that length", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 3, [{ duration_ms: 1 }]);
    const before = await readHeads(path);
    assertEquals([before.events, before.outcomes, before.journal], [3, 1, 0]);
    await writeStatement(path);
    const after = await readHeads(path);
    assertEquals([after.events, after.outcomes, after.journal], [4, 1, 1]);
    assertEquals(await readHeadsAt(path, before), before);
    assertEquals((await readHeadsAt(path, { ...after, events: 5 })).head_hash, "");
    const seal = JSON.parse(await Deno.readTextFile(`${path}.seal`));
    for (const [name, value] of Object.entries(after)) assertEquals(seal[name], value, name);
    await runSql(path, "UPDATE entries SET hash = 'x' WHERE sequence = 3");
    assert((await readHeadsAt(path, before)).head_hash !== before.head_hash);
  }));
