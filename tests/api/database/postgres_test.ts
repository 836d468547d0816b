/** PostgreSQL of Debian behind the proxy: the host logs in, the guest never has the password. */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import pg from "pg";
import type { NewCredential } from "../../../lib/credential/mod.ts";
import { openCa } from "../../../lib/network/ca/mod.ts";
import type { DbEvent } from "../../../lib/event/mod.ts";
import { runChild } from "../../helper/child.ts";
import { type DatabaseWorld, databaseWorld, DB_HOST } from "../../helper/database.ts";
import type { TestNetOptions } from "../../helper/net.ts";
import { PostgresServer } from "../../helper/postgres.ts";
import { eventually } from "../../helper/sbx.ts";

const PASSWORD = "correct-horse-battery";
const PORT = 5432;
const APP: NewCredential = {
  provider: "postgres",
  secret: PASSWORD,
  hosts: [`${DB_HOST}:${PORT}`],
  database: { user: "app" },
};

const upstreamDir = await Deno.makeTempDir();
const ca = await openCa({ dir: upstreamDir });
const server = await PostgresServer.start({
  tls: await ca.leaf(DB_HOST),
  hba: ["hostssl all all 127.0.0.1/32 scram-sha-256", "host all admin 127.0.0.1/32 scram-sha-256"].join("\n"),
});
await server.sql(`CREATE ROLE app LOGIN PASSWORD '${PASSWORD}'`);
await server.sql("CREATE DATABASE app OWNER app");

const open = (
  credentials: NewCredential[] = [APP],
  options: TestNetOptions & { providers?: string[] } = {},
) => databaseWorld(server, PORT, credentials, { upstreamDir, ...options });

async function connect(world: DatabaseWorld, config: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({
    host: "127.0.0.1",
    port: world.port,
    user: "app",
    database: "app",
    password: "anything",
    ...config,
  });
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function psql(world: DatabaseWorld, args: string[], env: Record<string, string> = {}, info = "") {
  const target = `host=${DB_HOST} hostaddr=127.0.0.1 port=${world.port} user=app dbname=app ${info}`;
  const { code, stdout, stderr } = await runChild("psql", { args: ["-X", "-At", ...args, target], env });
  return { code, out: new TextDecoder().decode(stdout), error: new TextDecoder().decode(stderr) };
}

const statements = ({ net }: DatabaseWorld): DbEvent["request"][] =>
  net.gate.entries.flatMap(({ event: { db } }) => db ? [db.request] : []);

/** Everything on record, as text. */
const record = ({ net }: DatabaseWorld) => JSON.stringify(net.gate.entries);

Deno.test({
  name: "PostgreSQL",
  // The server lives as long as the file.
  sanitizeResources: false,
  sanitizeOps: false,
  async fn(t) {
    await t.step("pg logs in with any password, and its statements are events", async () => {
      await using world = await open();
      const client = await connect(world);
      await client.query("CREATE TABLE t (a int, b text)");
      await client.query("INSERT INTO t VALUES ($1, $2)", [1, "a-secret-value"]);
      await client.query({ name: "one", text: "SELECT b FROM t WHERE a = $1", values: [1] });
      const { rows } = await client.query({ name: "one", text: "SELECT b FROM t WHERE a = $1", values: [1] });
      assertEquals(rows, [{ b: "a-secret-value" }]);
      assertEquals(statements(world).map(({ prepared }) => prepared), [undefined, undefined, "one", "one"]);
      await assertRejects(() => client.query("SELECT nothing"), Error, "does not exist");
      await client.query("DROP TABLE t");
      await client.end();
      await world.net.idle();
      assertEquals(statements(world).map(({ kind, command }) => `${kind} ${command}`), [
        "ddl CREATE",
        "write INSERT",
        "read SELECT",
        "read SELECT",
        "read SELECT",
        "ddl DROP",
      ]);
      const [first] = statements(world);
      assertEquals(first, {
        system: "postgres",
        host: DB_HOST,
        port: PORT,
        user: "app",
        name: "app",
        kind: "ddl",
        command: "CREATE",
        statement: "create table t(a int, b text)",
        bytes: first.bytes,
      });
      const failed = world.net.gate.entries.filter(({ outcome }) =>
        (outcome?.response as DbEvent["response"])?.error !== undefined
      );
      assertEquals(failed.map(({ event, outcome }) => [event.db?.request.statement, outcome?.response]), [
        ["select nothing", {
          bytes: (failed[0].outcome!.response as { bytes: number }).bytes,
          error: "42703",
        }],
      ]);
      const uses = world.net.gate.entries.flatMap(({ event: { credential } }) => credential ?? []);
      assertEquals(
        uses.map((
          { substitution: { outcome, credential_ref, location } },
        ) => [outcome, credential_ref, location]),
        [
          ["injected", world.refs[0], "password"],
        ],
      );
      for (const text of [PASSWORD, "a-secret-value"]) assert(!record(world).includes(text), text);
    });

    await t.step("psql verifies this VM's CA, and COPY passes both ways", async () => {
      await using world = await open();
      const rows = Array.from({ length: 50_000 }, (_, at) => `${at}\tline ${at}`).join("\n");
      const file = await Deno.makeTempFile();
      await Deno.writeTextFile(file, rows + "\n");
      const full = `sslmode=verify-full sslrootcert=${world.net.caPath}`;
      const { code, out, error } = await psql(
        world,
        [
          "-c",
          "CREATE TEMP TABLE c (a int, b text)",
          "-c",
          `\\copy c from '${file}'`,
          "-c",
          "COPY c TO STDOUT",
          "-c",
          "\\conninfo",
        ],
        {},
        full,
      );
      await Deno.remove(file);
      assertEquals([code, error], [0, ""]);
      assertStringIncludes(out, rows);
      assertStringIncludes(out, "SSL connection");
      assertEquals(statements(world).map(({ kind, command }) => `${kind} ${command}`), [
        "ddl CREATE",
        "write COPY",
        "read COPY",
      ]);
      for (const mode of ["disable", "prefer", "require"]) {
        assertEquals((await psql(world, ["-c", "SELECT 1"], {}, `sslmode=${mode}`)).out, "1\n", mode);
      }
    });

    await t.step("a rule refuses statements by kind, and the connection stays", async () => {
      await using world = await open([APP], {
        rules:
          `[profiles.rules.reads]\nname = "reads only"\naction = "block"\nmatch = 'has(db.request) && db.request.kind != "read"'\n`,
      });
      const client = await connect(world);
      for (const text of ["CREATE TABLE x (a int)", "SELECT 1; CREATE TABLE x (a int)", "DO 'x'"]) {
        const error = await assertRejects(() => client.query(text), pg.DatabaseError, 'rule "reads"');
        assertEquals(error.code, "42501");
        await assertRejects(
          () => client.query({ text, values: [], name: text.slice(0, 9) }),
          pg.DatabaseError,
          'rule "reads"',
        );
        assertEquals((await client.query("SELECT 2 AS two")).rows, [{ two: 2 }]);
      }
      await client.query("BEGIN");
      await assertRejects(
        () => client.query("DELETE FROM pg_class WHERE $1 = 1", [1]),
        pg.DatabaseError,
        "reads",
      );
      assertEquals((await client.query("SELECT now() = now() AS yes")).rows, [{ yes: true }]);
      await client.query("COMMIT");
      await client.end();
      assertEquals(await server.sql("SELECT count(*) FROM pg_tables WHERE tablename = 'x'"), "0");
      // SET at the start is SET.
      const { error } = await psql(world, ["-c", "SELECT 1"], { PGOPTIONS: "-c role=postgres" });
      assertStringIncludes(error, 'rule "reads"');
      assertEquals((await psql(world, ["-c", "SELECT 1"], { PGTZ: "UTC" })).out, "1\n");
    });

    await t.step("a rule refuses the connection", async () => {
      await using world = await open([APP], {
        rules:
          `[profiles.rules.none]\nname = "no databases"\naction = "block"\nmatch = 'http.request.scheme == "postgres"'\n`,
      });
      const { code, error } = await psql(world, ["-c", "SELECT 1"]);
      assertEquals(code, 2);
      assertStringIncludes(error, 'rule "none"');
    });

    await t.step("a person is asked, and the statement waits", async () => {
      await using world = await open([APP], {
        rules:
          `[profiles.rules.ask]\nname = "ask for writes"\naction = "ask"\nmatch = 'has(db.request) && db.request.kind == "write"'\n`,
      });
      const client = await connect(world);
      await client.query("CREATE TEMP TABLE w (a int)");
      const insert = client.query("INSERT INTO w VALUES (1)");
      await eventually("the ask", () => world.net.gate.asks.pending().length === 1);
      const [ask] = world.net.gate.asks.pending();
      world.net.gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
      assertEquals((await insert).rowCount, 1);
      await client.end();
    });

    await t.step("cancel reaches the VM's own statement, and no other key does", async () => {
      await using world = await open();
      const client = await connect(world);
      const sleeping = client.query("SELECT pg_sleep(600)");
      await eventually(
        "it sleeps",
        async () =>
          (await server.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND wait_event = 'PgSleep'",
          )) === "1",
      );
      const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
      const cancel = async (key: number) => {
        const conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
        const packet = new DataView(new ArrayBuffer(16));
        [16, 80877102, processID, key].forEach((value, at) => packet.setInt32(4 * at, value));
        await conn.write(new Uint8Array(packet.buffer));
        assertEquals(await conn.read(new Uint8Array(1)), null);
        conn.close();
      };
      await using other = await open();
      const conn = await Deno.connect({ hostname: "127.0.0.1", port: other.port });
      const packet = new DataView(new ArrayBuffer(16));
      [16, 80877102, processID, secretKey].forEach((value, at) => packet.setInt32(4 * at, value));
      await conn.write(new Uint8Array(packet.buffer));
      assertEquals(await conn.read(new Uint8Array(1)), null);
      conn.close();
      await cancel(secretKey ^ 1);
      assertEquals(
        await server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"),
        "1",
      );
      await cancel(secretKey);
      await assertRejects(() => sleeping, pg.DatabaseError, "canceling statement");
      await client.end();
    });

    await t.step("two credentials of one user are chosen by the database", async () => {
      const limited = (name: string): NewCredential => ({ ...APP, database: { user: "app", name } });
      await using world = await open([limited("app"), limited("postgres")]);
      assertEquals(new Set(world.refs).size, 2);
      for (const database of ["app", "postgres"]) {
        const client = await connect(world, { database });
        const { rows } = await client.query("SELECT current_database() AS name");
        assertEquals(rows, [{ name: database }]);
        await client.query("PREPARE two AS SELECT 1");
        assertEquals(statements(world).at(-1)?.prepared, "two");
        await client.end();
      }
      // \\c of psql is another connection.
      const { out } = await psql(world, ["-c", "\\c postgres", "-c", "SELECT current_database()"]);
      assertStringIncludes(out, "postgres");
      await assertRejects(
        () => connect(world, { database: "template1" }),
        pg.DatabaseError,
        "for the database",
      );
      await world.net.idle();
      assertEquals(statements(world).at(-1)?.name, "postgres");
    });

    await t.step("wrong password, user, database and ref are refused with the reason", async () => {
      await using wrong = await open([{ ...APP, secret: "not-the-password-1" }]);
      const { error } = await psql(wrong, ["-c", "SELECT 1"]);
      assertStringIncludes(
        error,
        'the login with the credential of this host failed: password authentication failed for user "app"',
      );
      await using world = await open([{ ...APP, database: { user: "app", name: "app" } }]);
      await assertRejects(
        () => connect(world, { user: "admin" }),
        pg.DatabaseError,
        'for the user "app", not for "admin"',
      );
      await assertRejects(
        () => connect(world, { database: "postgres" }),
        pg.DatabaseError,
        'for the database "app"',
      );
      await assertRejects(
        () => connect(world, { application_name: world.refs[0] }),
        pg.DatabaseError,
        "ref of a credential",
      );
      const foreign = `credential:blake3:${"0".repeat(64)}`;
      await assertRejects(
        () => connect(world, { application_name: foreign }),
        pg.DatabaseError,
        "ref of a credential",
      );
      assertEquals(
        world.net.gate.entries.flatMap(({ event: { credential } }) =>
          credential?.substitution.outcome === "denied" ? [credential.substitution.reason] : []
        ),
        ["secrets do not travel here", "unknown ref"],
      );
      await assertRejects(
        () => connect(world, { replication: "database" } as pg.ClientConfig),
        pg.DatabaseError,
        "replication",
      );
    });

    await t.step("without the grant, or at another host, the host does not log in", async () => {
      const rules =
        `[profiles.rules.raw]\nname = "raw"\naction = "allow"\nprotocol = "postgres"\nmatch = 'true'\n`;
      await using ungranted = await open([APP], { providers: [], rules });
      await assertRejects(() => connect(ungranted, { ssl: { rejectUnauthorized: false } }));
      await using elsewhere = await open([{ ...APP, hosts: ["other.example.com:5432"] }], { rules });
      await assertRejects(() => connect(elsewhere, { ssl: { rejectUnauthorized: false } }));
      assertEquals([...statements(ungranted), ...statements(elsewhere)], []);
    });

    await t.step("revoking ends the connection", async () => {
      await using world = await open();
      const client = await connect(world);
      const ended = new Promise<Error>((resolve) => client.once("error", resolve));
      await world.store.revoke(world.refs[0]);
      assertStringIncludes((await ended).message, "revoked");
      await assertRejects(() => connect(world));
    });

    await t.step("a server's text never has the password", async () => {
      await using world = await open();
      const client = await connect(world);
      const half = Math.floor(PASSWORD.length / 2);
      const { rows } = await client.query(
        "SELECT $1::text || $2::text AS a, repeat('x', 300000) || $1::text || $2::text AS b",
        [
          PASSWORD.slice(0, half),
          PASSWORD.slice(half),
        ],
      );
      assertEquals(rows[0].a, "*".repeat(PASSWORD.length));
      assertEquals(rows[0].b, "x".repeat(300000) + "*".repeat(PASSWORD.length));
      await client.end();
    });

    await t.step("a server that cannot be verified gets no password", async () => {
      await using stranger = await PostgresServer.start();
      await using plain = await databaseWorld(stranger, PORT, [APP], { upstreamDir });
      await assertRejects(() => connect(plain), pg.DatabaseError, "offers no TLS");
      await using untrusted = await databaseWorld(server, PORT, [APP]);
      await assertRejects(() => connect(untrusted), pg.DatabaseError, "untrusted authority");
      const off: NewCredential = {
        ...APP,
        secret: "admin-password",
        database: { user: "admin", tls: "off" },
      };
      await using loopback = await databaseWorld(stranger, PORT, [off], { upstreamDir });
      const client = await connect(loopback, { user: "admin", database: "postgres" });
      assertEquals((await client.query("SELECT current_user AS me")).rows, [{ me: "admin" }]);
      await client.end();
      await using away = await databaseWorld(stranger, PORT, [off], {
        target: () => ({ hostname: "192.0.2.1", port: 5432, isOverride: true }),
      });
      await assertRejects(() => connect(away, { user: "admin" }), pg.DatabaseError, "not on this machine");
    });

    await t.step("hostile first bytes end the connection", async () => {
      await using world = await open();
      const send = async (bytes: number[]) => {
        const conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
        await conn.write(new Uint8Array(bytes));
        const got: number[] = [];
        const buffer = new Uint8Array(512);
        try {
          for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
            got.push(...buffer.subarray(0, count));
          }
        } catch { /* reset */ }
        conn.close();
        return got;
      };
      const ssl = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];
      assertEquals(await send([...ssl, 0, 0]), []);
      assertEquals(await send([0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0]), []);
      assertEquals(await send([0, 0, 0, 4, 0, 3, 0, 0]), []);
      assertMatch(String.fromCharCode(...await send([0, 0, 0, 9, 0, 2, 0, 0, 0])), /version 3/);
      assertMatch(
        String.fromCharCode(...await send([0, 0, 0, 10, 0, 3, 0, 0, 65, 66])),
        /false StartupMessage/,
      );
    });
  },
});

Deno.test({
  name: "the server of this file ends",
  sanitizeResources: false,
  sanitizeOps: false,
  async fn() {
    await server[Symbol.asyncDispose]();
    await Deno.remove(upstreamDir, { recursive: true });
  },
});
