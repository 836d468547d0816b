import { assertEquals } from "@std/assert";
import { Database } from "../../../lib/ledger/database.ts";
import { selectPage, selectText } from "../../../lib/ledger/read/open.ts";

Deno.test("rows read as a page are the rows read one by one, whatever is in them", async () => {
  const client = new Database(":memory:");
  await client.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, a TEXT, b ANY)");
  const values = [
    ["'plain'", "1"],
    ["NULL", "2.5"],
    ["''", "NULL"],
    ["'zwölf ✓ 😀'", "'ü'"],
    ["CAST(x'61006200' AS TEXT)", "x'00ff'"],
    ["CAST(x'ff' AS TEXT)", "'after a byte that is not UTF-8'"],
    ["CAST(x'e282' AS TEXT)", "CAST(x'ac' AS TEXT)"],
    ["CAST(x'efbbbf61' AS TEXT)", "'a byte order mark'"],
  ];
  for (const [a, b] of values) await client.execute(`INSERT INTO rows (a, b) VALUES (${a}, ${b})`);
  const columns = ["rows.number", "a", "b"];
  for (let first = 0; first <= values.length; first++) {
    for (const limit of [1, 2, values.length]) {
      const rest = "FROM rows WHERE number > ? ORDER BY number DESC LIMIT ?";
      assertEquals(
        await selectPage(client, columns, rest, [first, limit]),
        await selectText(client, columns, rest, [first, limit]),
      );
    }
  }
  client.close();
});
