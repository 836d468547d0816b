/** Questions in SQL: they read one ledger, and do nothing else. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { askLedger, VIEW_FIELDS } from "../../../lib/ledger/sql/mod.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

async function withQuestions(run: (ask: (sql: string) => unknown[], path: string) => void): Promise<void> {
  await withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (const event of [requestEvent("http.request"), requestEvent("dns.query")]) {
        ledger.append({ event, decision: { decision: "block" } });
      }
      ledger.append({ event: execEvent("echo ';'") });
    }
    run((sql) => askLedger(path, sql).rows, path);
  });
}

Deno.test("a question reads views; large numbers and bytes are text, and rows have a limit", () =>
  withQuestions((ask, path) => {
    assertEquals(ask("SELECT host, decision FROM net_events"), [["api.example.com", "block"]]);
    assertEquals(ask("select command from exec_events where command = 'echo '';''';"), [["echo ';'"]]);
    assertEquals(ask("/* a; b */ WITH t AS (SELECT 1 AS one) SELECT one FROM t -- ;\n"), [[1]]);
    assertEquals(ask("VALUES (9007199254740993, x'ff00', NULL, 1.5)"), [[
      "9007199254740993",
      "ff00",
      null,
      1.5,
    ]]);
    // Text ends at a NUL, which hex shows.
    assertEquals(ask("SELECT 'a' || char(0) || 'b', hex('a' || char(0) || 'b')"), [["a", "610062"]]);
    assertEquals(askLedger(path, "SELECT 1 AS a, 2 AS a"), {
      columns: ["a", "a"],
      rows: [[1, 2]],
      truncated: false,
    });
    const many = askLedger(
      path,
      "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
    );
    assertEquals([many.rows.length, many.truncated], [100_000, true]);
  }));

Deno.test("a statement that is no question is refused, and leaves no file", () =>
  withQuestions((ask, path) => {
    const folder = path.slice(0, path.lastIndexOf("/"));
    const files = () => Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();
    const before = files();
    for (
      const sql of [
        "",
        "DELETE FROM entries",
        "WITH t AS (SELECT 1) DELETE FROM entries",
        "WITH t AS (SELECT 1) INSERT INTO entries SELECT * FROM entries",
        `VACUUM INTO '${folder}/copy.db'`,
        `ATTACH '${folder}/other.db' AS other`,
        "PRAGMA query_only = OFF",
        "SELECT 1; DROP TABLE entries",
        "SELECT 1 /* ' */; SELECT 2",
        "SELECT load_extension('/nowhere')",
        "SELECT readfile('/etc/passwd')",
        `SELECT writefile('${folder}/written', 'x')`,
        "SELECT * FROM pragma_database_list",
        "SELECT no_such_column FROM net_events",
        "BEGIN",
        // One row is good, the next one fails.
        "SELECT json(column1) FROM (VALUES ('1'), ('{'))",
      ]
    ) assertThrows(() => ask(sql), SbxError, "the statement cannot be run", sql);
    assertEquals(files(), before);
    assertEquals(ask("SELECT count(*) FROM entries"), [[3]]);
  }));

Deno.test("a file that is no ledger is named", async () => {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(file, "no database".repeat(1000));
    assertThrows(() => askLedger(file, "SELECT 1"), SbxError, `the ledger ${file} cannot be read`);
    assertThrows(() => askLedger("/nowhere/session.db", "SELECT 1"), SbxError, "cannot be read");
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("every question of docs/guides/queries.md is answered, and every column of the reference exists", () =>
  withQuestions((ask) => {
    const page = Deno.readTextFileSync(new URL("../../../docs/guides/queries.md", import.meta.url));
    const questions = [...page.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, sql]) => sql);
    assertEquals(questions.length, 11);
    const answers = questions.map(ask);
    assertEquals(answers[0], [["api.example.com", 1, 1, null]]);
    assertEquals(answers[5], [["example.com", 1]]);
    for (const [view, columns] of VIEW_FIELDS) {
      ask(`SELECT ${Object.keys(columns).join(", ")}, decision, rule_id FROM ${view}`);
    }
  }));
