/** Redis of Debian behind the proxy: the host logs in, the guest never has the password. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createClient } from "redis";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import type { NewCredential } from "../../../lib/credential/mod.ts";
import type { DbEvent } from "../../../lib/event/mod.ts";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { type DatabaseWorld, databaseWorld, DB_HOST } from "../../helper/database.ts";
import type { TestNetOptions } from "../../helper/net.ts";
import { httpResponse } from "../../helper/gate.ts";
import { RedisServer } from "../../helper/redis.ts";

const PASSWORD = "correct-horse-battery";
const PORT = 6379;
const APP: NewCredential = {
  provider: "redis",
  secret: PASSWORD,
  hosts: [`${DB_HOST}:${PORT}`],
  database: { user: "app" },
};
const ACL = `user app on >${PASSWORD} ~* &* +@all`;
const READER = `user reader on >${PASSWORD}-2 ~* &* +@read +@connection +acl|whoami`;

const statements = ({ net }: DatabaseWorld): DbEvent["request"][] =>
  net.gate.entries.flatMap(({ event: { db } }) => db ? [db.request] : []);

/** Sends bytes and reads until these texts have come, in this order. */
async function raw(world: DatabaseWorld, text: string, ...expected: string[]): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
  await writeAll(conn, new TextEncoder().encode(text));
  let got = "";
  const buffer = new Uint8Array(65536);
  while (!got.includes(expected.at(-1)!)) {
    const count = await conn.read(buffer);
    if (count === null) break;
    got += new TextDecoder().decode(buffer.subarray(0, count));
  }
  for (const each of expected) assertStringIncludes(got, each);
  return got;
}

const command = (...args: string[]) =>
  `*${args.length}\r\n${args.map((arg) => `$${arg.length}\r\n${arg}\r\n`).join("")}`;

Deno.test("Redis", async (t) => {
  const upstreamDir = await Deno.makeTempDir();
  const ca = await openCa({ dir: upstreamDir });
  await using server = await RedisServer.start(
    [ACL, READER, `requirepass ${PASSWORD}x`],
    await ca.leaf(DB_HOST),
  );
  const open = (
    credentials: NewCredential[] = [APP],
    options: TestNetOptions & { providers?: string[] } = {},
  ) => databaseWorld(server, PORT, credentials, { upstreamDir, ...options });

  for (const RESP of [2, 3] as const) {
    await t.step(
      `a client of RESP${RESP} logs in with any password, and its commands are events`,
      async () => {
        await using world = await open();
        const client = createClient({
          socket: { host: "127.0.0.1", port: world.port, reconnectStrategy: false },
          username: "app",
          password: "anything",
          RESP,
        });
        client.on("error", () => {});
        await client.connect();
        await client.set("key", "a-secret-value");
        assertEquals(await client.get("key"), "a-secret-value");
        const large = "x".repeat(1_000_000);
        await client.set("large", large);
        assertEquals(await client.get("large"), large);
        const [multi] = await client.multi().set("m", "1").get("m").exec();
        assertEquals(String(multi), "OK");
        assertEquals(await client.hSet("h", { a: "1", b: "2" }), 2);
        assertEquals({ ...await client.hGetAll("h") }, { a: "1", b: "2" });
        await client.flushAll();
        await client.close();
        await world.net.idle();
        const kinds = new Set(statements(world).map(({ kind, statement }) => `${kind} ${statement}`));
        for (const each of ["write set ? ?", "read get ?", "read multi", "read hgetall ?", "ddl flushall"]) {
          assert(kinds.has(each), `${each} of ${[...kinds]}`);
        }
        assertEquals(statements(world)[0].user, "app");
        for (const text of [PASSWORD, "a-secret-value"]) {
          assert(!JSON.stringify(world.net.gate.entries).includes(text));
        }
      },
    );
  }

  await t.step("a connection is its first command's user, by a credential for each", async () => {
    const of = (user: string | undefined, secret: string): NewCredential => ({
      ...APP,
      secret,
      database: user === undefined ? {} : { user },
    });
    const credentials = [of(undefined, `${PASSWORD}x`), of("app", PASSWORD), of("reader", `${PASSWORD}-2`)];
    await using world = await open(credentials);
    const who = command("ACL", "WHOAMI");
    for (const user of ["app", "reader", "default"]) {
      await raw(world, command("AUTH", user, "anything") + who, "+OK", user);
      await raw(world, command("HELLO", "3", "AUTH", user, "x") + who, "%7", user);
      const client = createClient({
        socket: { host: "127.0.0.1", port: world.port, reconnectStrategy: false },
        username: user,
        password: "anything",
      });
      client.on("error", () => {});
      await client.connect();
      assertEquals(await client.sendCommand(["ACL", "WHOAMI"]), user);
      await client.close();
    }
    await raw(world, who, "default");
    await raw(world, command("AUTH", "anything") + who, "+OK", "default");
    // A ref without a name is its own user's, and never another one's.
    const [, app, reader] = world.refs;
    for (const [ref, user] of [[app, "app"], [reader, "reader"], [world.refs[0], "default"]]) {
      await raw(world, command("AUTH", ref) + who, "+OK", user);
    }
    const lone = createClient({
      socket: { host: "127.0.0.1", port: world.port, reconnectStrategy: false },
      password: reader,
    });
    lone.on("error", () => {});
    await lone.connect();
    assertEquals(await lone.sendCommand(["ACL", "WHOAMI"]), "reader");
    lone.destroy();
    const ofReader = '-ERR a ref of a credential stands in AUTH; it is of the user "reader": ' +
      "begin the connection as that user";
    await raw(world, command("AUTH", "app", reader), ofReader);
    await raw(world, command("PING") + command("AUTH", reader), ofReader);
    // The server's own rules for a user hold.
    await raw(world, command("AUTH", "reader", "x") + command("SET", "a", "b"), "+OK", "-NOPERM");
    // No second login, and no user without a credential.
    const stays = '-WRONGPASS a connection stays with its user "reader"; open another one';
    await raw(
      world,
      command("AUTH", "reader", "x") + command("AUTH", "app", "x") + who,
      "+OK",
      stays,
      "reader",
    );
    await raw(
      world,
      command("PING") + command("AUTH", "app", "x") + who,
      "+PONG",
      "stays with its user",
      "default",
    );
    await raw(
      world,
      command("AUTH", "nobody", "x") + who,
      "-WRONGPASS the credential is for the user",
      "default",
    );
    await world.net.idle();
    const uses = world.net.gate.entries.flatMap(({ event: { credential } }) =>
      credential?.substitution ?? []
    );
    assertEquals(new Set(uses.map(({ credential_ref }) => credential_ref)), new Set(world.refs));
    assertEquals(
      new Set(statements(world).map(({ user }) => user || "default")),
      new Set(["app", "reader", "default"]),
    );
    const [connection] = world.net.gate.entries.filter(({ event: { http } }) => http);
    assertEquals(httpResponse(connection).address, "127.0.0.1");
    const record = JSON.stringify(world.net.gate.entries);
    assert(!record.includes(PASSWORD));
    // Revoking one user's ends its connections, and no other one's.
    const [kept, ended] = ["app", "reader"].map((user) =>
      createClient({
        socket: { host: "127.0.0.1", port: world.port, reconnectStrategy: false },
        username: user,
        password: "x",
      })
    );
    const gone = Promise.withResolvers<void>();
    kept.on("error", () => {});
    ended.on("error", () => gone.resolve());
    ended.on("end", () => gone.resolve());
    await kept.connect();
    await ended.connect();
    await world.store.revoke(world.refs[2]);
    await world.broker.refresh();
    await gone.promise;
    assertEquals(await kept.ping(), "PONG");
    await kept.close();
  });

  await t.step("a refused command is answered in its place, and fails its transaction", async () => {
    await using world = await open([APP], {
      rules:
        `[profiles.rules.reads]\nname = "reads only"\naction = "block"\nmatch = 'has(db.request) && db.request.kind != "read"'\n`,
    });
    const got = await raw(
      world,
      command("PING") + command("SET", "a", "b") + command("PING") + command("MULTI") + command("GET", "a") +
        command("EVAL", "return 1", "0") + command("EXEC") + command("ECHO", "end"),
      "end",
    );
    const lines = got.split("\r\n");
    assertEquals([lines[0], lines[2], lines[3], lines[4]], ["+PONG", "+PONG", "+OK", "+QUEUED"]);
    assertStringIncludes(lines[1], '-NOPERM blocked by policy: reads only (rule "reads")');
    assertStringIncludes(lines[5], '(rule "reads")');
    assertStringIncludes(lines[6], "-EXECABORT");
  });

  await t.step("refused commands that the server may not answer do not pile up", async () => {
    await using world = await open();
    const refused = command("AUTH", "other", "x").repeat(10_001);
    const text = await raw(world, command("CLIENT", "REPLY", "OFF") + refused, "too many refused commands");
    assertStringIncludes(text, "-ERR the connection has too many refused commands that wait for answers");
  });

  await t.step("the guest's login is the host's, whatever its password, and for no other user", async () => {
    await using world = await open();
    await raw(world, command("AUTH", "app", "x") + command("ACL", "WHOAMI"), "+OK", "app");
    await raw(
      world,
      command("HELLO", "3", "AUTH", "app", "x", "SETNAME", "me") + command("CLIENT", "GETNAME"),
      "%7",
      "me",
    );
    await raw(
      world,
      command("AUTH", "default", "x") + command("ACL", "WHOAMI"),
      '-WRONGPASS the credential is for the user "app"',
      "app",
    );
    await raw(world, command("AUTH", "app", world.refs[0]) + command("PING"), "+OK", "+PONG");
    await raw(
      world,
      command("AUTH", "app", `credential:blake3:${"0".repeat(64)}`) + command("PING"),
      "a ref of a credential stands in AUTH",
    );
    await raw(world, command("RESET") + command("ACL", "WHOAMI"), "-ERR sbx refuses RESET", "app");
    const denied = world.net.gate.entries.flatMap(({ event: { credential } }) =>
      credential?.substitution.outcome === "denied" ? [credential.substitution.reason] : []
    );
    assertEquals(denied, ["unknown ref"]);
  });

  await t.step("a server's answer never has the password", async () => {
    await using world = await open();
    const got = await raw(
      world,
      command("CONFIG", "GET", "requirepass") + command("ECHO", `x${PASSWORD}y`) + command("ECHO", "end"),
      "end",
    );
    assert(!got.includes(PASSWORD), got);
    assertStringIncludes(got, `x${"*".repeat(PASSWORD.length)}y`);
  });

  await t.step("a wrong password, and a server that cannot be verified", async () => {
    await using wrong = await open([{ ...APP, secret: "not-the-password-1" }]);
    await raw(wrong, command("PING"), "-ERR the login with the credential of this host failed: WRONGPASS");
    await using untrusted = await databaseWorld(server, PORT, [APP]);
    await raw(untrusted, command("PING"), "untrusted authority");
    await using plain = await RedisServer.start([ACL]);
    await using downgraded = await databaseWorld(plain, PORT, [APP], {
      upstreamDir,
      timeouts: { connect: 1000 },
    });
    await raw(downgraded, command("PING"), "-ERR db.example.com:6379");
    const off: NewCredential = { ...APP, database: { user: "app", tls: "off" } };
    await using loopback = await databaseWorld(plain, PORT, [off]);
    await raw(loopback, command("PING"), "+PONG");
  });

  await t.step("false commands end the connection", async () => {
    await using world = await open();
    for (
      const text of [
        "PING\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$3\r\nPINGX\r\n",
        "*1\n$4\nPING\n",
        "*1\r\n+PING\r\n",
        `*1\r\n$${"9".repeat(9)}\r\n`,
      ]
    ) {
      await raw(world, text, "-ERR the connection has");
    }
  });

  await t.step("revoking ends the connection", async () => {
    await using world = await open();
    using conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
    const buffer = new Uint8Array(512);
    await conn.write(new TextEncoder().encode(command("PING")));
    await conn.read(buffer);
    await world.store.revoke(world.refs[0]);
    const count = await conn.read(buffer);
    assertStringIncludes(new TextDecoder().decode(buffer.subarray(0, count!)), "revoked");
    assertEquals(await conn.read(buffer), null);
  });

  await Deno.remove(upstreamDir, { recursive: true });
});
