/** The thread that writes a ledger: it writes by itself, says what failed, and ends with the ledger. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { eventually } from "../../helper/sbx.ts";
import { execEvent, runSql, select, SESSION, withLedgerPath } from "../../helper/ledger.ts";

Deno.test("the thread writes rows by itself, also after a failure that is over, until the ledger is closed", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const isWritten = (count: number) =>
      eventually("the rows are on the disk", async () => {
        const [{ n }] = await select(path, "SELECT count(*) AS n FROM entries");
        return n === count;
      });
    for (let count = 1; count <= 2; count++) {
      ledger.append({ event: execEvent() });
      await isWritten(count);
    }
    await runSql(path, "ALTER TABLE entries RENAME TO elsewhere");
    ledger.append({ event: execEvent() });
    await assertRejects(() => ledger.flush(), SbxError, `the ledger ${path} cannot be written`);
    await runSql(path, "ALTER TABLE elsewhere RENAME TO entries");
    await ledger.flush();
    ledger.append({ event: execEvent() });
    await isWritten(4);
    await ledger.close();
    const { code, message } = await assertRejects(() => ledger.flush(), SbxError);
    assertEquals([code, message], ["ledger.unavailable", "the ledger is closed"]);
  }));

Deno.test("a thread that cannot open its ledger says why, and ends", () =>
  withLedgerPath(async (path) => {
    await Deno.writeTextFile(path, "no database\n".repeat(400));
    const error = await assertRejects(() => Ledger.open(path, { sessionId: SESSION }), SbxError);
    assertEquals([error.code, error.hint], [
      "ledger.invalid",
      `sbx verify ${path} names the first bad event`,
    ]);
  }));
