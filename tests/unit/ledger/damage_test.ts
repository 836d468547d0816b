/** Damage anywhere in the file of a closed ledger. */
import { assert, assertEquals } from "@std/assert";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { withLedgerPath, writeEvents } from "../../helper/ledger.ts";

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
