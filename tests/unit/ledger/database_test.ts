import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Database, DatabaseError } from "../../../lib/ledger/database.ts";
import { withLedgerPath } from "../../helper/ledger.ts";

Deno.test("a failure has SQLite's name, of single statements and of several at once", () =>
  withLedgerPath(async (path) => {
    const [database, other] = [new Database(path), new Database(path)];
    try {
      for (const sql of ["PRAGMA journal_mode = WAL", "CREATE TABLE t (a TEXT PRIMARY KEY)"]) {
        await database.execute(sql);
      }
      const codeOf = (run: () => void) => assertThrows(run, DatabaseError).code;
      const insert = database.prepare("INSERT INTO t VALUES (?)");
      insert.run(["a"]);
      assertEquals(codeOf(() => insert.run(["a"])), "SQLITE_CONSTRAINT");
      assertEquals(codeOf(() => database.exec("SELECT * FROM missing")), "SQLITE_ERROR");

      database.exec("BEGIN IMMEDIATE");
      assertEquals(codeOf(() => other.exec("BEGIN IMMEDIATE")), "SQLITE_BUSY");
      assertEquals(codeOf(() => other.prepare("INSERT INTO t VALUES (1)").run()), "SQLITE_BUSY");
      database.exec("ROLLBACK");

      await database.execute("PRAGMA max_page_count = 1");
      const text = "x".repeat(100_000);
      assertEquals(codeOf(() => insert.run([text])), "SQLITE_FULL");
      assertEquals(codeOf(() => database.exec(`INSERT INTO t VALUES ('${text}')`)), "SQLITE_FULL");
    } finally {
      other.close();
      database.close();
      database.close();
    }
    assertEquals(
      Array.from(Deno.readDirSync(path.slice(0, path.lastIndexOf("/"))), ({ name }) => name).length,
      1,
    );
  }));

Deno.test("a file that is no database, and one in no folder, are named as such", () =>
  withLedgerPath(async (path) => {
    assertEquals(assertThrows(() => new Database(`${path}/none.db`), DatabaseError).code, "SQLITE_CANTOPEN");
    await Deno.writeTextFile(path, "not a database, but long enough for the header of one".repeat(100));
    const database = new Database(path);
    const error = await assertRejects(() => database.execute("SELECT * FROM t"), DatabaseError);
    assertEquals(error.code, "SQLITE_NOTADB");
    assertEquals(assertThrows(() => database.exec("SELECT * FROM t"), DatabaseError).code, "SQLITE_NOTADB");
    database.close();
  }));

Deno.test("values come back as they were: bytes, text with a NUL as a blob, numbers, NULL", async () => {
  const database = new Database(":memory:");
  const { rows } = await database.execute({
    sql: "SELECT ? AS bytes, CAST(? AS BLOB) AS text, ? AS number, ? AS absent",
    args: [new Uint8Array([0, 255]), "a\0b", 2.5, null],
  });
  assertEquals({ ...rows[0] }, {
    bytes: new Uint8Array([0, 255]),
    text: new TextEncoder().encode("a\0b"),
    number: 2.5,
    absent: null,
  });
  database.close();
});

Deno.test("a whole number beyond 2^53, and a schema that cannot be parsed, are damage", () =>
  withLedgerPath(async (path) => {
    const database = new Database(path);
    const codeOf = (run: () => void) => assertThrows(run, DatabaseError).code;
    assertEquals(codeOf(() => database.prepare("SELECT 9007199254740993 AS n").get()), "SQLITE_CORRUPT");
    database.exec("CREATE TABLE odd (a)");
    database.close();
    const text = new TextDecoder("latin1").decode(await Deno.readFile(path));
    const bytes = Uint8Array.from(text.replace("TABLE odd", "TABLX odd"), (char) => char.charCodeAt(0));
    await Deno.writeFile(path, bytes);
    const damaged = new Database(path);
    assertEquals(codeOf(() => damaged.exec("SELECT * FROM odd")), "SQLITE_CORRUPT");
    damaged.close();
  }));

Deno.test("a relative path that begins with file: names its file, and not another by a URI", () =>
  withLedgerPath(async (path) => {
    const folder = path.slice(0, path.lastIndexOf("/"));
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        `
        const { Database } = await import(${
          JSON.stringify(import.meta.resolve("../../../lib/ledger/database.ts"))
        });
        const { askLedger } = await import(${
          JSON.stringify(import.meta.resolve("../../../lib/ledger/sql/mod.ts"))
        });
        const { MIGRATE } = await import(${
          JSON.stringify(import.meta.resolve("../../../lib/ledger/schema.ts"))
        });
        for (const name of ["file:a.db", "b.db?mode=memory"]) {
          const database = new Database(name);
          database.exec(MIGRATE);
          database.close();
          askLedger(name, "SELECT sequence FROM entries");
        }`,
      ],
      cwd: folder,
      stderr: "piped",
    }).output();
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name).sort(), [
      "b.db?mode=memory",
      "file:a.db",
    ]);
  }));
