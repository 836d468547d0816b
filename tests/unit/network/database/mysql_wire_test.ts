/** Bytes of a MySQL connection: logins by every method, and hostile packets of either side. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { constants, createHash, generateKeyPairSync, privateDecrypt } from "node:crypto";
import type { NewCredential } from "../../../../lib/credential/mod.ts";
import {
  CAPABILITY,
  packet,
  PACKET_MAX,
  packetHead,
  uint,
} from "../../../../lib/network/database/mysql_packet.ts";
import { databaseWorld, DB_HOST } from "../../../helper/database.ts";

const PASSWORD = "correct-horse-battery";
const APP: NewCredential = {
  provider: "mysql",
  secret: PASSWORD,
  hosts: [`${DB_HOST}:3306`],
  database: { user: "app", tls: "off" },
};
const NONCE = new TextEncoder().encode("abcdefghijklmnopqrst");
const CAPABILITIES = 0xffff_ffff;
const OK = new Uint8Array([0, 0, 0, 2, 0, 0, 0]);

const encode = (text: string) => new TextEncoder().encode(text);
const join = (...parts: Uint8Array[]) => {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
};

function greeting(plugin: string, collation = 45): Uint8Array {
  return packet(
    0,
    new Uint8Array([10]),
    "9.7.0\0",
    uint(7, 4),
    NONCE.subarray(0, 8),
    new Uint8Array(1),
    uint(CAPABILITIES & 0xffff, 2),
    uint(collation, 1),
    uint(2, 2),
    uint(CAPABILITIES >>> 16, 2),
    uint(21, 1),
    new Uint8Array(10),
    NONCE.subarray(8),
    new Uint8Array(1),
    `${plugin}\0`,
  );
}

function login(changes: { capabilities?: number; collation?: number } = {}): Uint8Array {
  const capabilities = changes.capabilities ??
    (CAPABILITY.MYSQL | CAPABILITY.PROTOCOL_41 | CAPABILITY.SECURE_CONNECTION | CAPABILITY.PLUGIN_AUTH);
  return packet(
    1,
    uint(capabilities >>> 0, 4),
    uint(PACKET_MAX, 4),
    uint(changes.collation ?? 45, 1),
    new Uint8Array(23),
    "app\0",
    uint(0, 1),
    "mysql_native_password\0",
  );
}

const query = (text: string, sequence = 0) => packet(sequence, new Uint8Array([3]), text);

/** A connection whose bytes are read as packets. */
class Side {
  #bytes = new Uint8Array();

  constructor(readonly conn: Deno.TcpConn) {}

  async #fill(count: number): Promise<boolean> {
    const buffer = new Uint8Array(65536);
    while (this.#bytes.length < count) {
      const read = await this.conn.read(buffer).catch(() => null);
      if (read === null) return false;
      this.#bytes = join(this.#bytes, buffer.subarray(0, read));
    }
    return true;
  }

  /** The next packet's body; `undefined` at the end. */
  async next(): Promise<Uint8Array | undefined> {
    if (!await this.#fill(4)) return undefined;
    const length = this.#bytes[0] | this.#bytes[1] << 8 | this.#bytes[2] << 16;
    if (!await this.#fill(4 + length)) return undefined;
    const body = this.#bytes.slice(4, 4 + length);
    this.#bytes = this.#bytes.slice(4 + length);
    return body;
  }

  async send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.conn.write(bytes.subarray(at));
  }
}

/**
 * Runs a server for one connection behind the proxy, and a client at it.
 * @returns everything that the server got
 */
async function session(
  server: (side: Side) => Promise<void>,
  client: (side: Side) => Promise<void>,
): Promise<{ got: string; record: string }> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let got = "";
  const serving = (async () => {
    const conn = await listener.accept();
    const side = new Side(conn);
    const next = side.next.bind(side);
    side.next = async () => {
      const body = await next();
      got += new TextDecoder("latin1").decode(body);
      return body;
    };
    try {
      await server(side);
      while (await side.next());
    } catch {
      // the proxy ends the connection
    }
    conn.close();
  })();
  await using world = await databaseWorld(listener.addr, 3306, [APP]);
  const conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
  await client(new Side(conn));
  try {
    conn.close();
  } catch { /* closed */ }
  await serving;
  listener.close();
  await world.net.idle();
  return { got, record: JSON.stringify(world.net.gate.entries) };
}

const text = (body: Uint8Array | undefined) => new TextDecoder("latin1").decode(body);

/** A server answers the question how it compares names: exactly. */
async function answerNames(side: Side): Promise<void> {
  assertStringIncludes(text(await side.next()), "@@lower_case_table_names");
  const end = new Uint8Array([0xfe, 0, 0, 2, 0]);
  await side.send(join(
    packet(1, new Uint8Array([1])),
    packet(2, new Uint8Array(20)),
    packet(3, end),
    packet(4, new Uint8Array([1]), "0"),
    packet(5, end),
  ));
}

/** A server that accepts every login, and then answers the first command. */
const answering = (answer: Uint8Array) => async (side: Side) => {
  await side.send(greeting("mysql_native_password"));
  await side.next();
  await side.send(packet(2, OK));
  await answerNames(side);
  await side.next();
  await side.send(answer);
};

async function logIn(side: Side): Promise<void> {
  await side.next();
  await side.send(login());
  assertEquals((await side.next())?.[0], 0);
}

Deno.test("caching_sha2_password: a server that knows the hash, and one that sees the password by its key", async () => {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const sha = (...parts: Uint8Array[]) => createHash("sha256").update(join(...parts)).digest();
  const once = sha(encode(PASSWORD));
  for (const isFast of [true, false]) {
    let seen = "";
    const { got, record } = await session(async (side) => {
      await side.send(greeting("caching_sha2_password"));
      const first = await side.next();
      const mask = sha(sha(once), NONCE);
      const proof = text(new Uint8Array(once.map((byte, at) => byte ^ mask[at])));
      assertStringIncludes(text(first), proof);
      await side.send(packet(2, new Uint8Array([1, isFast ? 3 : 4])));
      if (!isFast) {
        assertEquals(await side.next(), new Uint8Array([2]));
        const pem = publicKey.export({ type: "spki", format: "pem" }) as string;
        await side.send(packet(4, new Uint8Array([1]), pem));
        const plain = privateDecrypt(
          { key: privateKey, padding: constants.RSA_PKCS1_OAEP_PADDING },
          (await side.next())!,
        );
        seen = text(new Uint8Array(plain.map((byte, at) => byte ^ NONCE[at % 20])));
      }
      await side.send(packet(isFast ? 3 : 6, OK));
      await answerNames(side);
    }, async (side) => {
      assertStringIncludes(text(await side.next()), "caching_sha2_password");
      await side.send(login());
      assertEquals(await side.next(), OK);
    });
    assertEquals(seen, isFast ? "" : `${PASSWORD}\0`);
    assert(!got.includes(PASSWORD) && !record.includes(PASSWORD));
  }
});

Deno.test("a server gets no password by a method that sends it, and no second method", async () => {
  const change = (plugin: string, sequence = 2) =>
    packet(sequence, new Uint8Array([0xfe]), `${plugin}\0`, NONCE, new Uint8Array(1));
  const cases: [string, Uint8Array[]][] = [
    ["mysql_clear_password", [change("mysql_clear_password")]],
    ["sha256_password", [change("sha256_password")]],
    ["dialog", [change("dialog")]],
    ["that sbx does not know", [change("../x")]],
    ["not safe", [packet(2, new Uint8Array([0xfe]))]],
    ["its method twice", [change("mysql_native_password"), change("caching_sha2_password", 4)]],
    ["unexpected packet", [packet(2, new Uint8Array([1, 4]))]],
    ["out of order", [packet(5, OK)]],
  ];
  for (const [reason, packets] of cases) {
    const { got, record } = await session(async (side) => {
      await side.send(greeting("mysql_native_password"));
      for (const each of packets) {
        await side.next();
        await side.send(each);
      }
    }, async (side) => {
      await side.next();
      await side.send(login());
      assertStringIncludes(text(await side.next()), reason);
      assertEquals(await side.next(), undefined);
    });
    assert(!got.includes(PASSWORD) && !record.includes(PASSWORD), reason);
  }
});

Deno.test("the guest is offered no compression, no files of its own, and random bytes of its own", async () => {
  await session(answering(packet(1, OK)), async (side) => {
    const body = (await side.next())!;
    const low = body[20] | body[21] << 8;
    const high = body[25] | body[26] << 8;
    const offered = low | high << 16;
    for (const bit of [5, 7, 25, 26, 27, 28]) assertEquals(offered >>> bit & 1, 0, `bit ${bit}`);
    assertEquals(offered >>> 11 & 1, 1);
    assert(!text(body).includes("abcdefgh"));
    await side.send(login());
    await side.next();
  });
});

Deno.test("a server that wants a file of the guest, or answers out of order, ends the connection", async () => {
  const answers: [string, Uint8Array][] = [
    ["a request for a file", packet(1, new Uint8Array([0xfb]), "/etc/passwd")],
    ["out of order", packet(3, OK)],
    ["cut short", packet(1, new Uint8Array([0]))],
    ["an empty packet", packet(1)],
  ];
  for (const [reason, answer] of answers) {
    await session(answering(answer), async (side) => {
      await logIn(side);
      await side.send(query("SELECT 1"));
      // An OK passes before it is read.
      if (reason === "cut short") await side.next();
      const said = text(await side.next());
      assertStringIncludes(said, reason);
      assert(!said.includes("/etc/passwd"));
      assertEquals(await side.next(), undefined);
    });
  }
});

Deno.test("a password across two packets of 16 MB is masked, and their lengths stay", async () => {
  const half = PACKET_MAX - 10 - 9;
  const value = join(new Uint8Array(half).fill(0x78), encode(PASSWORD), encode("end"));
  const row = join(new Uint8Array([0xfe]), uint(value.length, 8), value);
  const column = packet(2, new Uint8Array(20));
  const end = new Uint8Array([0xfe, 0, 0, 2, 0]);
  const answer = join(
    packet(1, new Uint8Array([1])),
    column,
    packet(3, end),
    packetHead({ length: PACKET_MAX, sequence: 4 }),
    row.subarray(0, PACKET_MAX),
    packet(5, row.subarray(PACKET_MAX)),
    packet(6, end),
  );
  await session(answering(answer), async (side) => {
    await logIn(side);
    await side.send(query("SELECT big"));
    const bodies: Uint8Array[] = [];
    for (let count = 0; count < 6; count++) bodies.push((await side.next())!);
    assertEquals(bodies.map(({ length }) => length), [1, 20, 5, PACKET_MAX, row.length - PACKET_MAX, 5]);
    const tail = text(join(bodies[3].subarray(-12), bodies[4]));
    assertStringIncludes(tail, `${"*".repeat(PASSWORD.length)}end`);
  });
});

Deno.test("hostile clients: packets out of order, unknown commands, replication, foreign encodings", async () => {
  const refusals: [string, Uint8Array][] = [
    ["no command 18", packet(0, new Uint8Array([0x12]), "binlog")],
    ["no command 30", packet(0, new Uint8Array([0x1e]))],
    ["no command 8", packet(0, new Uint8Array([0x08]))],
    ["no command 254", packet(0, new Uint8Array([0xfe]))],
  ];
  await session(async (side) => {
    await side.send(greeting("mysql_native_password"));
    await side.next();
    await side.send(packet(2, OK));
    await answerNames(side);
    assertStringIncludes(text(await side.next()), "SELECT 1");
    await side.send(packet(1, OK));
  }, async (side) => {
    await logIn(side);
    for (const [reason, bytes] of refusals) {
      await side.send(bytes);
      assertStringIncludes(text(await side.next()), reason);
    }
    await side.send(query("SELECT 1"));
    assertEquals(await side.next(), OK);
    await side.send(query("SELECT 1", 3));
    assertStringIncludes(text(await side.next()), "out of order");
    assertEquals(await side.next(), undefined);
  });
  for (const collation of [28, 13, 35, 248]) {
    await session((side) => side.send(greeting("mysql_native_password")), async (side) => {
      await side.next();
      await side.send(login({ collation }));
      assertStringIncludes(text(await side.next()), "utf8mb4");
    });
  }
  const long = packetHead({ length: PACKET_MAX, sequence: 0 });
  await session(answering(packet(1, OK)), async (side) => {
    await logIn(side);
    await side.send(join(long, new Uint8Array([3])));
    assertStringIncludes(text(await side.next()), "which sbx does not relay");
  });
});

Deno.test("where the server's encoding is another, texts beyond ASCII count as admin", async () => {
  const { record } = await session(async (side) => {
    await side.send(greeting("mysql_native_password", 28));
    await side.next();
    await side.send(packet(2, OK));
    await answerNames(side);
    for (let count = 0; count < 2; count++) {
      await side.next();
      await side.send(packet(1, OK));
    }
  }, async (side) => {
    await logIn(side);
    for (const each of ["SELECT 1", "SELECT '\u20ac'"]) {
      await side.send(query(each));
      assertEquals(await side.next(), OK);
    }
  });
  assertEquals([...record.matchAll(/"kind":"([a-z]+)"/g)].map(([, kind]) => kind), ["read", "admin"]);
});
