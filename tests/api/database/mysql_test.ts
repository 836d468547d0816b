/** MariaDB of Debian behind the proxy: the host logs in, the guest never has the password. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import mysql from "mysql2/promise.js";
import type { NewCredential } from "../../../lib/credential/mod.ts";
import type { DbEvent } from "../../../lib/event/mod.ts";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { runChild } from "../../helper/child.ts";
import { type DatabaseWorld, databaseWorld, DB_HOST } from "../../helper/database.ts";
import { MariaDbServer } from "../../helper/mariadb.ts";
import type { TestNetOptions } from "../../helper/net.ts";
import { eventually } from "../../helper/sbx.ts";

const PASSWORD = "correct-horse-battery";
const PORT = 3306;
const APP: NewCredential = {
  provider: "mysql",
  secret: PASSWORD,
  hosts: [`${DB_HOST}:${PORT}`],
  database: { user: "app" },
};
const READS =
  `[profiles.rules.reads]\nname = "reads only"\naction = "block"\nmatch = 'has(db.request) && db.request.kind != "read"'\n`;

const upstreamDir = await Deno.makeTempDir();
const ca = await openCa({ dir: upstreamDir });
const server = await MariaDbServer.start({ tls: await ca.leaf(DB_HOST), settings: ["--local-infile=ON"] });
await server.sql(
  `CREATE DATABASE app; CREATE DATABASE other;
   CREATE USER app IDENTIFIED BY '${PASSWORD}'; GRANT ALL ON app.* TO app; GRANT SELECT ON other.* TO app;
   CREATE USER modern IDENTIFIED VIA ed25519 USING PASSWORD('${PASSWORD}-2'); GRANT ALL ON app.* TO modern;`,
);

const open = (
  credentials: NewCredential[] = [APP],
  options: TestNetOptions & { providers?: string[] } = {},
) => databaseWorld(server, PORT, credentials, { upstreamDir, ...options });

async function connect(
  world: DatabaseWorld,
  config: mysql.ConnectionOptions = {},
): Promise<mysql.Connection> {
  const client = await mysql.createConnection({
    host: "127.0.0.1",
    port: world.port,
    user: "app",
    database: "app",
    password: "anything",
    ...config,
  });
  client.on("error", () => {});
  return client;
}

async function cli(world: DatabaseWorld, args: string[], user = "app") {
  const place = ["--no-defaults", "-h", "127.0.0.1", "-P", `${world.port}`, "-u", user, "-pwhatever"];
  const { code, stdout, stderr } = await runChild("mariadb", { args: [...place, "-NB", ...args, "app"] });
  return { code, out: new TextDecoder().decode(stdout), error: new TextDecoder().decode(stderr) };
}

const statements = ({ net }: DatabaseWorld): DbEvent["request"][] =>
  net.gate.entries.flatMap(({ event: { db } }) => db ? [db.request] : []);
const kinds = (world: DatabaseWorld) => statements(world).map(({ kind, command }) => `${kind} ${command}`);
const record = ({ net }: DatabaseWorld) => JSON.stringify(net.gate.entries);

Deno.test({
  name: "MariaDB",
  // The server lives as long as the file.
  sanitizeResources: false,
  sanitizeOps: false,
  async fn(t) {
    await t.step("two credentials of one user are chosen by the database, and limit it", async () => {
      const limited = (name: string): NewCredential => ({ ...APP, database: { user: "app", name } });
      await using world = await open([limited("app"), limited("other")]);
      assertEquals(new Set(world.refs).size, 2);
      for (const database of ["app", "other"]) {
        const client = await connect(world, { database });
        const [rows] = await client.query("SELECT DATABASE() AS name");
        assertEquals(rows, [{ name: database }] as unknown as typeof rows);
        const elsewhere = database === "app" ? "other" : "app";
        const error = await assertRejects(
          () => client.query(`USE \`${elsewhere}\``),
          Error,
          `for the database "${database}"`,
        );
        assertEquals((error as Error & { sqlState: string }).sqlState, "42000");
        await client.query(`USE ${database}`);
        await client.end();
      }
      const { error } = await cli(world, ["-e", "USE other"]);
      assertStringIncludes(error, 'for the database "app", not for "other"');
      // MariaDB prepares USE too, and takes it with other statements.
      const client = await connect(world, { multipleStatements: true });
      await assertRejects(() => client.execute("USE other"), Error, 'not for "other"');
      await assertRejects(() => client.query("USE other; DO 1"), Error, 'for the database "app"');
      await client.execute("USE app");
      const [rows] = await client.query("SELECT DATABASE() AS name");
      assertEquals(rows, [{ name: "app" }] as unknown as typeof rows);
      await client.end();
      await assertRejects(
        () => connect(world, { database: "mysql" }),
        Error,
        'not for "mysql"',
      );
      assert(!record(world).includes(PASSWORD));
    });

    await t.step(
      "rules see the database that USE has chosen, and one among other statements is admin",
      async () => {
        const rules = `[profiles.rules.other]\nname = "other"\naction = "block"\n` +
          `match = 'has(db.request) && db.request.name == "other" && db.request.command == "SELECT"'\n`;
        await using world = await open([APP], { rules });
        const client = await connect(world, { multipleStatements: true });
        await client.query("SELECT 1");
        await assertRejects(() => client.query("USE nowhere"), Error, "to database 'nowhere'");
        await client.query("SELECT 2");
        await client.query("use other");
        await assertRejects(() => client.query("SELECT 3"), Error, 'rule "other"');
        await client.query("USE app; DO 1");
        await client.end();
        const prepared = await connect(world);
        await prepared.execute("USE other");
        await assertRejects(() => prepared.query("SELECT 5"), Error, 'rule "other"');
        await prepared.end();
        const shown = await cli(world, ["-e", "USE other; SELECT 4"]);
        assertStringIncludes(shown.error, 'rule "other"');
        await world.net.idle();
        const seen = statements(world).map(({ name, command, kind }) => `${name} ${command} ${kind}`);
        assertEquals(seen.slice(0, 6), [
          "app SELECT read",
          "nowhere USE read",
          "app SELECT read",
          "other USE read",
          "other SELECT read",
          "other USE admin",
        ]);
        assertEquals(seen.slice(-2), ["other USE read", "other SELECT read"]);
      },
    );

    await t.step("where the server takes OTHER for other, so do rules and credentials", async () => {
      const settings = ["--lower-case-table-names=1", "--character-set-server=utf8mb4"];
      await using folding = await MariaDbServer.start({ tls: await ca.leaf(DB_HOST), settings });
      await folding.sql(
        `CREATE DATABASE app; CREATE DATABASE other; CREATE DATABASE \`ärger\`;
         CREATE USER app IDENTIFIED BY '${PASSWORD}'; GRANT ALL ON *.* TO app;`,
      );
      const rules = `[profiles.rules.other]\nname = "other"\naction = "block"\n` +
        `match = 'has(db.request) && db.request.name == "other" && db.request.command == "SELECT"'\n`;
      const inFolding = (credentials: NewCredential[]) =>
        databaseWorld(folding, PORT, credentials, { upstreamDir, rules });
      await using world = await inFolding([APP]);
      for (const enter of ["USE OTHER", "use `Other`", "/* */ USE oTHER"]) {
        const client = await connect(world);
        await client.query(enter);
        await assertRejects(() => client.query("SELECT 1"), Error, 'rule "other"', enter);
        await client.end();
        const prepared = await connect(world);
        await prepared.execute(enter);
        await assertRejects(() => prepared.query("SELECT 2"), Error, 'rule "other"', enter);
        await prepared.end();
      }
      const named = await connect(world, { database: "OTHER" });
      await assertRejects(() => named.query("SELECT 3"), Error, 'rule "other"');
      await named.changeUser({ database: "oTher" });
      await assertRejects(() => named.query("SELECT 4"), Error, 'rule "other"');
      await named.end();
      // MySQL's own command for it, and letters that the server folds in its own way.
      const shown = await cli(world, ["-e", "\\u OTHER\nSELECT 5"]);
      assertStringIncludes(shown.error, 'rule "other"');
      const client = await connect(world);
      await assertRejects(() => client.query("USE `Ärger`"), Error, "write its name in lower case");
      await client.query("USE `ärger`");
      await client.end();
      await assertRejects(() => connect(world, { database: "Ärger" }), Error, "write its name in lower case");
      assert(
        !statements(world).some(({ name }) => name !== name?.toLowerCase()),
        "the record has both names",
      );

      await using limited = await inFolding([{ ...APP, database: { user: "app", name: "app" } }]);
      const own = await connect(limited);
      await own.query("USE APP");
      for (const enter of ["USE OTHER", "USE other", "USE mysql"]) {
        await assertRejects(() => own.query(enter), Error, 'for the database "app"', enter);
        await assertRejects(() => own.execute(enter), Error, 'for the database "app"', enter);
      }
      const [rows] = await own.query("SELECT DATABASE() AS name");
      assertEquals(rows, [{ name: "app" }] as unknown as typeof rows);
      await own.end();
      await assertRejects(() => connect(limited, { database: "OTHER" }), Error, 'not for "OTHER"');
    });

    await t.step("mysql2 logs in with any password, and its statements are events", async () => {
      await using world = await open();
      const client = await connect(world);
      await client.query("CREATE TABLE t (a int, b text)");
      await client.execute("INSERT INTO t VALUES (?, ?)", [1, "a-secret-value"]);
      for (let count = 0; count < 2; count++) {
        const [rows] = await client.execute("SELECT b FROM t WHERE a = ?", [1]);
        assertEquals(rows, [{ b: "a-secret-value" }] as unknown as typeof rows);
      }
      const error = await assertRejects(() => client.query("SELECT nothing FROM t"), Error, "Unknown column");
      assertEquals((error as Error & { sqlState: string }).sqlState, "42S22");
      await client.query("DROP TABLE t");
      await client.ping();
      await client.end();
      await world.net.idle();
      assertEquals(kinds(world), [
        "ddl CREATE",
        "write INSERT",
        "read SELECT",
        "read SELECT",
        "read SELECT",
        "ddl DROP",
      ]);
      const [first] = statements(world);
      assertEquals(first, {
        system: "mysql",
        host: DB_HOST,
        port: PORT,
        user: "app",
        name: "app",
        kind: "ddl",
        command: "CREATE",
        statement: "create table t(a int, b text)",
        bytes: 30,
      });
      const failed = world.net.gate.entries.filter(({ outcome }) =>
        (outcome?.response as DbEvent["response"])?.error !== undefined
      );
      assertEquals(
        failed.map(({ event, outcome }) => [
          event.db?.request.statement,
          (outcome?.response as DbEvent["response"])?.error,
        ]),
        [["select nothing from t", "42S22"]],
      );
      const uses = world.net.gate.entries.flatMap(({ event: { credential } }) => credential ?? []);
      assertEquals(
        uses.map((
          { substitution },
        ) => [substitution.outcome, substitution.credential_ref, substitution.location]),
        [["injected", world.refs[0], "password"]],
      );
      for (const text of [PASSWORD, "a-secret-value"]) assert(!record(world).includes(text), text);
    });

    await t.step("the mariadb client works, with TLS and without, and MariaDB's ed25519", async () => {
      const modern: NewCredential = { ...APP, secret: `${PASSWORD}-2`, database: { user: "modern" } };
      await using world = await open([APP, modern]);
      const sql = "SELECT current_user(); SELECT 2; SHOW STATUS LIKE 'Ssl_cipher'";
      for (const user of ["app", "modern"]) {
        const { code, out, error } = await cli(world, ["-e", sql], user);
        assertEquals([code, error], [0, ""]);
        assert(out.startsWith(`${user}@%\n2\nSsl_cipher\tTLS`), out);
      }
      const tls = ["--ssl", `--ssl-ca=${world.net.caPath}`, "-e", "\\s"];
      const { code, out, error } = await cli(world, tls);
      assertEquals([code, error], [0, ""]);
      assertStringIncludes(out, "Cipher in use");
    });

    await t.step("a rule refuses statements by kind, and the connection stays", async () => {
      await using world = await open([APP], { rules: READS });
      const client = await connect(world, { multipleStatements: true });
      const texts = [
        "CREATE TABLE x (a int)",
        "SELECT 1; CREATE TABLE x (a int)",
        "/*!50000 CREATE TABLE x (a int) */",
        "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
        "PREPARE s FROM 'CREATE TABLE x (a int)'",
        "SET sql_mode = 'ANSI_QUOTES'",
        "CALL p()",
        "DO sleep(0)",
        "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE x",
        "HANDLER x OPEN",
        "BEGIN NOT ATOMIC CREATE TABLE x (a int); END",
      ];
      for (const text of texts) {
        const error = await assertRejects(() => client.query(text), Error, 'rule "reads"');
        const { errno, sqlState } = error as Error & { errno: number; sqlState: string };
        assertEquals([errno, sqlState], [1227, "42000"], text);
        await assertRejects(() => client.execute(text), Error, 'rule "reads"');
        const [rows] = await client.query("SELECT 2 AS two");
        assertEquals(rows, [{ two: 2 }] as unknown as typeof rows);
      }
      await client.end();
      assertEquals(
        await server.sql("SELECT count(*) FROM information_schema.tables WHERE table_name = 'x'"),
        "0",
      );
    });

    await t.step(
      "the server may read no file of the guest, and no text in an encoding that hides quotes",
      async () => {
        await using world = await open();
        const client = await connect(world);
        await client.query("CREATE TABLE l (a text)");
        await assertRejects(
          () =>
            client.query({
              sql: "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE l",
              infileStreamFactory: never,
            }),
          Error,
          "not allowed",
        );
        await client.query("SELECT ?", ["it's"]);
        await client.query("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'");
        await client.query("SELECT '\\'");
        await client.query("SET NAMES gbk");
        await client.query("SELECT '\u20ac'");
        await client.query("DROP TABLE l");
        await client.end();
        assertEquals(kinds(world).slice(1), [
          "admin LOAD",
          "read SELECT",
          "admin SET",
          "read SELECT",
          "admin SET",
          "admin SELECT",
          "ddl DROP",
        ]);
        const error = await assertRejects(
          () => connect(world, { charset: "GBK_CHINESE_CI" }),
          Error,
          "utf8mb4",
        );
        assertEquals((error as Error & { sqlState: string }).sqlState, "42000");
      },
    );

    await t.step("large rows, parameters and results pass unchanged", async () => {
      await using world = await open();
      const client = await connect(world);
      const [sizes] = await client.query(
        "SELECT repeat('x', 15000000) AS big FROM (SELECT 1 AS a UNION SELECT 2) s",
      );
      assertEquals((sizes as { big: string }[]).map(({ big }) => big.length), [15000000, 15000000]);
      const value = "y".repeat(300_000);
      const [rows] = await client.execute("SELECT ? AS a", [value]);
      assertEquals((rows as { a: string }[])[0].a, value);
      const [many] = await client.query(
        "WITH RECURSIVE n AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM n WHERE a < 900) SELECT a FROM n",
      );
      assertEquals((many as unknown[]).length, 900);
      await client.end();
    });

    await t.step("a server's text never has the password", async () => {
      await using world = await open();
      const client = await connect(world);
      const half = Math.floor(PASSWORD.length / 2);
      const [rows] = await client.query("SELECT concat(?, ?) AS a, concat(repeat('x', 300000), ?, ?) AS b", [
        PASSWORD.slice(0, half),
        PASSWORD.slice(half),
        PASSWORD.slice(0, half),
        PASSWORD.slice(half),
      ]);
      const [{ a, b }] = rows as { a: string; b: string }[];
      assertEquals([a, b], ["*".repeat(PASSWORD.length), "x".repeat(300000) + "*".repeat(PASSWORD.length)]);
      await client.end();
    });

    await t.step("a connection changes its database and resets, and stays with its user", async () => {
      await using world = await open();
      const client = await connect(world);
      await client.changeUser({ user: "app", password: "else", database: "other" });
      const [rows] = await client.query("SELECT database() AS name");
      assertEquals(rows, [{ name: "other" }] as unknown as typeof rows);
      await assertRejects(() => client.changeUser({ user: "root", password: "" }), Error, "for the user");
      await using one = await open([{ ...APP, database: { user: "app", name: "app" } }]);
      await assertRejects(() => connect(one, { database: "other" }), Error, 'for the database "app"');
    });

    await t.step("a person is asked once for a prepared statement", async () => {
      await using world = await open([APP], { rules: READS.replace("block", "ask") });
      const client = await connect(world);
      const made = client.execute("CREATE TEMPORARY TABLE w (a int)");
      await eventually("the ask", () => world.net.gate.asks.pending().length === 1);
      const [ask] = world.net.gate.asks.pending();
      world.net.gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
      await made;
      await client.end();
      await world.net.idle();
      assertEquals(kinds(world), ["ddl CREATE"]);
    });

    await t.step("wrong password, user and ref are refused with the reason", async () => {
      await using wrong = await open([{ ...APP, secret: "not-the-password-1" }]);
      const denied = await assertRejects(
        () => connect(wrong),
        Error,
        "login with the credential of this host failed",
      );
      assertEquals((denied as Error & { sqlState: string }).sqlState, "28000");
      await using world = await open();
      await assertRejects(
        () => connect(world, { user: "admin" }),
        Error,
        'for the user "app", not for "admin"',
      );
      await assertRejects(() => connect(world, { database: world.refs[0] }), Error, "ref of a credential");
      const foreign = `credential:blake3:${"0".repeat(64)}`;
      await assertRejects(() => connect(world, { database: foreign }), Error, "ref of a credential");
    });

    await t.step("without the grant the host does not log in; a rule refuses the connection", async () => {
      const rules =
        `[profiles.rules.raw]\nname = "raw"\naction = "allow"\nprotocol = "mysql"\nmatch = 'true'\n`;
      await using ungranted = await open([APP], { providers: [], rules });
      await assertRejects(() => connect(ungranted), Error, "Access denied");
      assertEquals(statements(ungranted), []);
      const none =
        `[profiles.rules.none]\nname = "no databases"\naction = "block"\nmatch = 'http.request.scheme == "mysql"'\n`;
      await using blocked = await open([APP], { rules: none });
      await assertRejects(() => connect(blocked), Error, 'rule "none"');
    });

    await t.step("revoking ends the connection", async () => {
      await using world = await open();
      const client = await connect(world);
      await client.query("SELECT 1");
      await world.store.revoke(world.refs[0]);
      await eventually("it ends", async () => await client.query("SELECT 1").then(() => false, () => true));
      await assertRejects(() => connect(world));
    });

    await t.step("a server that cannot be verified gets no password", async () => {
      await using untrusted = await databaseWorld(server, PORT, [APP]);
      await assertRejects(() => connect(untrusted), Error, "untrusted authority");
      await using plain = await MariaDbServer.start();
      await plain.sql(
        `CREATE USER app IDENTIFIED BY '${PASSWORD}'; CREATE DATABASE app; GRANT ALL ON app.* TO app`,
      );
      await using verified = await databaseWorld(plain, PORT, [APP], { upstreamDir });
      await assertRejects(() => connect(verified), Error, "offers no TLS");
      const off: NewCredential = { ...APP, database: { user: "app", tls: "off" } };
      await using loopback = await databaseWorld(plain, PORT, [off], { upstreamDir });
      const client = await connect(loopback);
      const [rows] = await client.query("SELECT 1 AS one");
      assertEquals(rows, [{ one: 1 }] as unknown as typeof rows);
      await client.end();
      await using away = await databaseWorld(plain, PORT, [off], {
        target: () => ({ hostname: "192.0.2.1", port: 3306, isOverride: true }),
      });
      await assertRejects(() => connect(away), Error, "not on this machine");
    });
  },
});

function never(): never {
  throw new Error("the client was asked for a file");
}

Deno.test({
  name: "the server of this file ends",
  sanitizeResources: false,
  sanitizeOps: false,
  async fn() {
    await server[Symbol.asyncDispose]();
    await Deno.remove(upstreamDir, { recursive: true });
  },
});
