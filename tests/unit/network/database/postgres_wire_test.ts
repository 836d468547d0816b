/** Bytes of a PostgreSQL connection: unchanged in both directions, and hostile ones of either side. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { errorMessage, message } from "../../../../lib/network/database/postgres_message.ts";
import type { NewCredential } from "../../../../lib/credential/mod.ts";
import { databaseWorld, DB_HOST } from "../../../helper/database.ts";

const PASSWORD = "correct-horse-battery";
const APP: NewCredential = {
  provider: "postgres",
  secret: PASSWORD,
  hosts: [`${DB_HOST}:5432`],
  database: { user: "app", tls: "off" },
};

const encode = (text: string) => new TextEncoder().encode(text);
const number = (value: number) => new Uint8Array([value >>> 24, value >>> 16, value >>> 8, value]);
const short = (value: number) => new Uint8Array([value >>> 8, value]);
const join = (...parts: Uint8Array[]) => new Uint8Array(parts.flatMap((part) => [...part]));
const startup = (text: string) => {
  const body = encode(text);
  return join(number(8 + body.length), number(196608), body);
};

const START = startup("user\0app\0database\0shop\0\0");
const OK = message("R", 0);
const READY = message("Z", "I");

/** A server that says `greeting` after the first message, and then `answers`, whatever it gets. */
function fakeServer(
  greeting: Uint8Array,
  answers: (sent: Uint8Array) => Uint8Array | undefined = () => undefined,
) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const got: number[] = [];
  const serve = async () => {
    for await (const conn of listener) {
      const buffer = new Uint8Array(65536);
      let isFirst = true;
      try {
        for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
          const bytes = buffer.slice(0, count);
          got.push(...bytes);
          const answer = isFirst ? greeting : answers(bytes);
          isFirst = false;
          if (answer) await conn.write(answer);
        }
      } catch {
        // the proxy ends the connection
      }
      conn.close();
    }
  };
  const serving = serve();
  return {
    port: listener.addr.port,
    got,
    async [Symbol.asyncDispose]() {
      listener.close();
      await serving;
    },
  };
}

/** Sends bytes, and reads until there are `count`, or the end. */
async function exchange(port: number, pieces: Uint8Array[], count: number): Promise<Uint8Array> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  const got: number[] = [];
  const buffer = new Uint8Array(65536);
  try {
    for (const piece of pieces) await conn.write(piece);
    while (got.length < count) {
      const read = await conn.read(buffer);
      if (read === null) break;
      got.push(...buffer.subarray(0, read));
    }
  } catch {
    // reset
  }
  return new Uint8Array(got);
}

Deno.test("the bytes of both sides pass unchanged, in whatever pieces they come", async () => {
  const greeting = join(
    message("N", "SNOTICE\0Mhello\0\0"),
    OK,
    message("S", "x\0y\0"),
    message("K", 1, 2),
    READY,
  );
  const turn = join(
    message("P", "s\0SELECT $1\0", short(1), number(23)),
    message("B", "p\0s\0", short(0), short(1), number(3), encode("abc"), short(0)),
    message("D", "Pp\0"),
    message("E", "p\0", 0),
    message("C", "Ss\0"),
    message("H"),
    message("S"),
  );
  const answer = join(
    message("1"),
    message("2"),
    message("T", short(0)),
    message("D", short(1), number(3), encode("abc")),
    message("C", "SELECT 1\0"),
    message("3"),
    READY,
  );
  for (const size of [1, 7, 4096]) {
    let sent = 0;
    await using server = fakeServer(
      greeting,
      (bytes) => (sent += bytes.length) === turn.length ? answer : undefined,
    );
    await using world = await databaseWorld(server, 5432, [APP]);
    const pieces: Uint8Array[] = [];
    const all = join(START, turn);
    for (let at = 0; at < all.length; at += size) pieces.push(all.subarray(at, at + size));
    // The server of the host's login gets the guest's own StartupMessage.
    const got = await exchange(world.port, pieces, greeting.length + answer.length);
    assertEquals(got, join(greeting, answer), `by ${size}`);
    await world.net.idle();
    assertEquals(new Uint8Array(server.got), all);
    const events = world.net.gate.entries.flatMap(({ event: { db }, outcome }) =>
      db ? [[db.request.statement, outcome?.error]] : []
    );
    assertEquals(events, [["select $1", undefined]]);
  }
});

Deno.test("a rule that sends the connection to another server does not take the password there", async () => {
  const rules = `[profiles.rules.elsewhere]
name = "elsewhere"
action = "rewrite"
match = 'http.request.scheme == "postgres"'
rewrite = [{ op = "set", path = "http.request.host", value = "other.example.com" }]
`;
  await using server = fakeServer(join(OK, READY));
  await using world = await databaseWorld(server, 5432, [APP], { rules });
  const got = new TextDecoder().decode(await exchange(world.port, [START], Infinity));
  assertStringIncludes(got, "sends this connection elsewhere");
  assertEquals(server.got, []);
});

Deno.test("a server that wants the password in an unsafe way, or lies about it, gets none", async () => {
  const cases: [greeting: Uint8Array, says: string][] = [
    [message("R", 3), "as plain text without TLS"],
    [message("R", 5, "salt"), "as an MD5 hash"],
    [message("R", 7), "does not know"],
    [message("R", 10, "SCRAM-SHA-1\0\0"), "a mechanism that sbx does not know"],
    [join(message("R", 10, "SCRAM-SHA-256\0\0"), OK), "without the server's proof"],
    [
      join(message("R", 10, "SCRAM-SHA-256\0\0"), message("R", 11, "r=x,s=AAAA,i=1")),
      "false message of SCRAM",
    ],
    [message("R", 12, "v=x"), "unexpected message of SCRAM"],
    [message("D", "x"), "unexpected message"],
    [join(encode("R"), number(3)), "false length"],
    [join(encode("R"), number(0x7fffffff)), "more than"],
    [errorMessage("FATAL", "28P01", `no, ${PASSWORD} is wrong`), "no, [redacted] is wrong"],
    [join(...Array.from({ length: 300 }, () => message("N", "\0"))), "without an end"],
  ];
  for (const [greeting, says] of cases) {
    await using server = fakeServer(greeting);
    await using world = await databaseWorld(server, 5432, [APP]);
    const got = new TextDecoder().decode(await exchange(world.port, [START], Infinity));
    assertStringIncludes(got, says);
    await world.net.idle();
    const sent = new TextDecoder().decode(new Uint8Array(server.got));
    for (const text of [got, sent, JSON.stringify(world.net.gate.entries)]) {
      assert(!text.includes(PASSWORD), says);
    }
  }
});

Deno.test("messages of a client that cannot be framed end the connection, and none of them goes out", async () => {
  for (
    const bytes of [
      join(encode("Q"), number(3)),
      join(encode("Q"), number(0xffffffff), encode("SELECT 1\0")),
      message("Q", "SELECT 1"),
      message("Q", "SELECT 1\0DROP TABLE t\0"),
      message("p", "x\0"),
      message("P", "s\0SELECT 1"),
      message("B", "no end of a name"),
      message("\0", "x"),
      join(message("P", "\0SELECT 1\0", short(0)), message("Q", "SELECT 1\0")),
    ]
  ) {
    await using server = fakeServer(join(OK, READY));
    await using world = await databaseWorld(server, 5432, [APP]);
    const got = await exchange(world.port, [join(START, bytes)], Infinity);
    assertEquals(got.subarray(0, OK.length + READY.length), join(OK, READY));
    await world.net.idle();
    const [kind] = bytes;
    const rest = new Uint8Array(server.got).subarray(START.length);
    assert(rest.length === 0 || kind === 0x50, String.fromCharCode(kind));
  }
});

Deno.test("a COPY whose answers would no longer fit the turns ends the connection", async () => {
  const copyIn = message("G", new Uint8Array([0, 0, 0]));
  const query = message("Q", "COPY t FROM STDIN\0");
  const extended = join(message("P", "\0COPY t FROM STDIN\0", short(0)), message("E", "\0", 0), message("S"));
  for (
    const [sent, says] of [
      [extended, "simple query"],
      [join(query, message("Q", "SELECT 1\0")), "simple query"],
    ] as const
  ) {
    await using server = fakeServer(join(OK, READY), () => copyIn);
    await using world = await databaseWorld(server, 5432, [APP]);
    const got = await exchange(world.port, [join(START, sent)], Infinity);
    assertStringIncludes(new TextDecoder().decode(got), says);
  }
  await using server = fakeServer(join(OK, READY), (bytes) => bytes[0] === 0x51 ? copyIn : undefined);
  await using world = await databaseWorld(server, 5432, [APP]);
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
  await conn.write(join(START, query));
  let seen = 0;
  while (seen < OK.length + READY.length + copyIn.length) seen += await conn.read(new Uint8Array(512)) ?? 512;
  await conn.write(join(message("d", "1\n"), message("S")));
  await world.net.idle();
  const sent = new TextDecoder().decode(new Uint8Array(server.got));
  assert(!sent.endsWith("S\0\0\0\x04"));
});

Deno.test("a server that answers unasked, in another encoding, or with half a message ends the connection", async () => {
  const cases = [
    READY,
    message("W", "x"),
    message("S", "client_encoding\0SJIS\0"),
    message("K", 3, 4),
    join(encode("D"), number(3)),
    join(encode("D"), number(0x7fffffff)),
  ];
  for (const bytes of cases) {
    await using server = fakeServer(join(OK, message("K", 1, 2), READY, bytes));
    await using world = await databaseWorld(server, 5432, [APP]);
    await exchange(world.port, [START], Infinity);
    await world.net.idle();
    const [connection] = world.net.gate.entries.filter(({ event }) => event.http);
    assert(connection.outcome?.error !== undefined);
  }
});
