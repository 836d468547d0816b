/** Damage anywhere in the file of a closed ledger. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { countEvents, readEvents, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { runSql, withLedgerPath, writeEvents } from "../../helper/ledger.ts";

Deno.test("verify finds a flipped bit anywhere in a closed ledger", () =>
  withLedgerPath(async (path) => {
    await writeEvents(
      path,
      60,
      Array.from({ length: 40 }, (_, at) => ({ duration_ms: at, error: "x".repeat(200) })),
    );
    const good = await Deno.readFile(path);
    assert(good.length > 30_000);
    for (let at = 0; at < good.length; at += 1499) {
      const bytes = good.slice();
      bytes[at] ^= 1 << (at % 8);
      await Deno.writeFile(path, bytes);
      const { ok, first_bad } = await verifyLedger(path);
      assertEquals([ok, typeof first_bad?.reason], [false, "string"], `bit ${at % 8} of byte ${at}`);
    }
  }));

Deno.test("events that are no JSON, or no events, are damage to every reader", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 2);
    for (const value of ["x'ff00'", "'{'", "'5'", "'null'"]) {
      await runSql(path, `UPDATE entries SET event = ${value} WHERE sequence = 2`);
      const code = async (run: () => Promise<unknown>) =>
        (await assertRejects(run, SbxError, "", value)).code;
      assertEquals(await code(() => readEvents(path)), "ledger.invalid", value);
      if (value.includes("{") || value.startsWith("x")) {
        assertEquals(await code(() => countEvents(path, {}, 1000, () => {})), "ledger.invalid", value);
      }
    }
  }));
