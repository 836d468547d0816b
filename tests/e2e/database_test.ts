/**
 * Databases of the host as the clients of a VM see them: no password in the guest, and rules on statements.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { packProgram } from "../helper/guest_program.ts";
import { MariaDbServer } from "../helper/mariadb.ts";
import { PostgresServer } from "../helper/postgres.ts";
import { RedisServer } from "../helper/redis.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";

const PASSWORD = "correct-horse-battery";
const RULES = `
[profiles.rules.reads]
name = "databases are for reading"
action = "block"
match = 'has(db.request) && db.request.kind in ["ddl", "admin"]'
`;

/** psql itself: the one of the search path is a script. */
async function psqlPath(): Promise<string> {
  const { stdout } = await runChild("sh", { args: ["-c", "ls /usr/lib/postgresql/*/bin/psql | tail -n 1"] });
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("a VM uses databases whose passwords stay on the host", async () => {
  await using postgres = await PostgresServer.start();
  await postgres.sql(`CREATE ROLE app LOGIN PASSWORD '${PASSWORD}'`);
  await postgres.sql("CREATE DATABASE app OWNER app");
  await using redis = await RedisServer.start([`requirepass ${PASSWORD}`]);
  await using mariadb = await MariaDbServer.start();
  await mariadb.sql(
    `CREATE DATABASE app; CREATE USER app IDENTIFIED BY '${PASSWORD}'; GRANT ALL ON app.* TO app`,
  );
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    const places = {
      postgres: `postgres.host.sbx:${postgres.port}`,
      mysql: `mysql.host.sbx:${mariadb.port}`,
      redis: `redis.host.sbx:${redis.port}`,
    };
    for (const [provider, host] of Object.entries(places)) {
      const database = { tls: "off", ...(provider !== "redis" && { user: "app" }) };
      const added = await sbx.api("POST", "/credentials/add", { provider, secret: PASSWORD, host, database });
      assertEquals(added.status, 200, JSON.stringify(added.body));
    }
    await sbx.ok("profile", "copy", "code", "data");
    const profile = join(sbx.home, "profiles/data/profile.toml");
    const text = (await Deno.readTextFile(profile)).replace(
      /^providers = \[.*\]$/m,
      'providers = ["postgres", "mysql", "redis"]',
    );
    assertStringIncludes(text, 'providers = ["postgres", "mysql", "redis"]');
    const services =
      `[host]\nservices = ["postgres:${postgres.port}", "mysql:${mariadb.port}", "redis:${redis.port}"]\n`;
    await Deno.writeTextFile(profile, `${text}\n${RULES}\n${services}`);
    await sbx.ok("create", "dev", "--profile", "data");
    const bundle = join(sbx.home, "client.js");
    const { code, stderr } = await runChild(Deno.execPath(), {
      args: ["bundle", "--quiet", "--output", bundle, "tests/helper/database_guest.ts"],
      cwd: fromRoot("."),
    });
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    await sbx.ok("cp", bundle, "dev:/tmp/client.js");
    const run = async (system: keyof typeof places, ...statements: string[]) => {
      const words = statements.map((each) => `'${each}'`).join(" ");
      const line = `deno run -A /tmp/client.js ${system} ${places[system].replace(":", " ")} ${words}`;
      const ran = await sbx.cli("exec", "dev", "--timeout", "120", "-c", line);
      assertEquals(ran.code, 0, ran.stderr);
      return ran.stdout.trim().split("\n").map((each) => JSON.parse(each));
    };
    const [one, refused, two] = await run(
      "postgres",
      "SELECT 1 AS a",
      "CREATE TABLE t (a int)",
      "SELECT 2 AS a",
    );
    assertEquals([one, two], [[{ a: 1 }], [{ a: 2 }]]);
    assertEquals(refused.code, "42501");
    assertStringIncludes(refused.error, '(rule "reads")');
    // Debian's own psql, whose package the image does not have.
    const [host, port] = places.postgres.split(":");
    const folder = join(sbx.home, "psql");
    const psql = await packProgram(await psqlPath(), folder, "/tmp/psql");
    await sbx.ok("cp", folder, "dev:/tmp/psql");
    const ask = (statement: string) =>
      sbx.cli(
        "exec",
        "dev",
        "--",
        ...psql,
        "-X",
        "-At",
        "-h",
        host,
        "-p",
        port,
        "-U",
        "app",
        "app",
        "-c",
        statement,
      );
    assertEquals((await ask("SELECT 5")).stdout, "5\n");
    const blocked = await ask("CREATE TABLE t (a int)");
    assertEquals(blocked.code, 1);
    assertStringIncludes(
      blocked.stderr,
      'ERROR:  blocked by policy: databases are for reading (rule "reads")',
    );
    const [three, denied, four] = await run(
      "mysql",
      "SELECT 3 AS a",
      "CREATE TABLE t (a int)",
      "SELECT 4 AS a",
    );
    assertEquals([three, four], [[{ a: 3 }], [{ a: 4 }]]);
    assertEquals(denied.code, "ER_SPECIFIC_ACCESS_DENIED_ERROR");
    assertStringIncludes(denied.error, '(rule "reads")');
    const [set, flushed, get] = await run("redis", "SET k v", "FLUSHALL", "GET k");
    assertEquals([set, get], ["OK", "v"]);
    assertStringIncludes(flushed.error, 'NOPERM blocked by policy: databases are for reading (rule "reads")');
    const { events } = JSON.parse(await sbx.ok("events", "dev", "--family", "db", "--json"));
    const kinds = events.map(({ db: { request: { system, kind, statement } }, decision }: {
      db: { request: Record<string, string> };
      decision: string;
    }) => [system, kind, statement, decision]);
    for (
      const each of [
        ["postgres", "read", "select ? as a", "allow"],
        ["postgres", "ddl", "create table t(a int)", "block"],
        ["mysql", "read", "select ? as a", "allow"],
        ["mysql", "ddl", "create table t(a int)", "block"],
        ["redis", "write", "set ? ?", "allow"],
        ["redis", "ddl", "flushall", "block"],
      ]
    ) {
      assert(
        kinds.some((kind: string[]) => kind.join() === each.join()),
        `${each} of ${JSON.stringify(kinds)}`,
      );
    }
    assertStringIncludes(await sbx.ok("credentials", "audit"), "postgres");
    // Nothing in the guest has the password: not its environment, not a file, not a program's memory.
    const search = `env; grep -rlF ${PASSWORD.slice(0, 12)} /tmp /etc /root /run /proc/*/environ 2>/dev/null`;
    const found = await sbx.cli("exec", "dev", "--timeout", "60", "-c", search);
    assert(
      !found.stdout.includes(PASSWORD) && !found.stdout.split("\n").some((line) => line.startsWith("/")),
      found.stdout,
    );
  } finally {
    await sbx.dispose();
  }
});
