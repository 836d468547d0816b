/**
 * Segments through JetStream: servers and receivers that are killed, lost cursors, a full stream,
 * large segments, logins and TLS.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { FleetMachine } from "../../lib/fleet/machine/mod.ts";
import { openNats, parseNats } from "../../lib/fleet/nats.ts";
import { enrol, makeToken, readEnd } from "../../lib/fleet/receive/mod.ts";
import { makeReport, NatsTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { Register } from "../../lib/fleet/register/mod.ts";
import { sessionFolder } from "../../lib/fleet/store.ts";
import { useHostNetwork } from "../../lib/base/proxy/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { newKey, record, SESSION_A, SESSION_B } from "../helper/fleet.ts";
import { NatsServer } from "../helper/nats.ts";
import { arrived, enrolled, entries, pause, problemsOf, pulling } from "../helper/pulling.ts";
import { Random } from "../helper/random.ts";
import { ReceiverProcess } from "../helper/receiver_process.ts";

const SEED = Number(Deno.env.get("SEED") ?? 1);

async function messagesIn(url: string): Promise<number> {
  const address = parseNats(url);
  const { connection, manager } = await openNats(address);
  const { state } = await manager.streams.info(address.stream);
  await connection.close();
  return state.messages;
}

Deno.test("JetStream and two receivers are killed under load: every row once", async () => {
  const dir = await Deno.makeTempDir();
  const store = `${dir}/store`;
  const random = new Random(SEED);
  await using server = await NatsServer.start();
  const start = () => new ReceiverProcess(store, ["--from", server.url]).ready();
  const receivers = [await start(), await start()];
  const sessions = [SESSION_A, SESSION_B];
  for (const session of sessions) await record(`${dir}/${session}.db`, session, entries(session, 40));
  const keys = await Promise.all(Array.from({ length: 20 }, (_, at) => enrolled(store, `machine-${at}`)));
  let isDone = false;
  const kills = { server: 0, receiver: 0 };
  const killing = (async () => {
    while (!isDone) {
      await pause(300 + random.below(700));
      if (random.below(3) === 0) {
        await server.kill();
        await server.begin();
        kills.server++;
      } else {
        const at = random.below(2);
        await receivers[at].kill();
        receivers[at] = await start();
        kills.receiver++;
      }
    }
  })();
  await Promise.all(keys.map(async (key, at) => {
    const mine = new Random(SEED * 1000 + at);
    for (const session of sessions) {
      const path = `${dir}/${at}-${session}.db`;
      // The ledger grows while it is sent, so that there are many segments.
      const all = entries(session, 60);
      for (let sent = 0; sent < all.length; sent += 20) {
        await record(path, session, all.slice(sent, sent + 20));
        for (let isSent = false; !isSent; await pause(20)) {
          const target = new NatsTarget(server.url);
          // Each attempt is a restarted machine, some of which lost their cursors.
          const cursors = mine.below(4) === 0
            ? `${dir}/none/${at}-${mine.below(1e9)}`
            : `${dir}/cursors/${at}`;
          isSent = await new Shipper({ dir: cursors, key, target }).ship(session, path).then(
            () => true,
            (error) => {
              assertEquals(error.code, "fleet.unavailable", error.message);
              return false;
            },
          );
          await target.close();
        }
      }
    }
  }));
  for (const [at, key] of keys.entries()) {
    for (const session of sessions) await arrived(store, key, session, `${dir}/${at}-${session}.db`);
  }
  isDone = true;
  await killing;
  for (const receiver of receivers) await receiver.kill();
  assertEquals(await problemsOf(store), []);
  assert(kills.server > 0 && kills.receiver > 0);
  console.log(`  ${kills.server} kills of the server, ${kills.receiver} of receivers`);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a machine without its cursor goes on where the stream ends, and one with another record is told", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await NatsServer.start();
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  await using _pull = pulling(store, server.url);
  await using target = disposable(new NatsTarget(server.url));
  const path = `${dir}/a.db`;
  await record(path, SESSION_A, entries(SESSION_A, 10));
  const ship = async (cursors: string, from = path) => {
    for (let tries = 0;; tries++) {
      try {
        return await new Shipper({ dir: `${dir}/${cursors}`, key, target: target.target }).ship(
          SESSION_A,
          from,
        );
      } catch (error) {
        // The receiver makes the stream.
        if ((error as SbxError).code !== "fleet.unavailable" || tries > 100) throw error;
        await pause(50);
      }
    }
  };
  assertEquals((await ship("one")).events, 10);
  await record(path, SESSION_A, entries(SESSION_A, 5));
  assertEquals((await ship("two")).events, 5);
  await ship("three");
  assertEquals(await messagesIn(server.url), 2, "nothing is there twice");
  await arrived(store, key, SESSION_A, path);
  const other = `${dir}/other.db`;
  await record(other, SESSION_A, entries(SESSION_A, 20));
  const error = await assertRejects(() => ship("four", other), SbxError);
  assertEquals(error.code, "fleet.forked");
  await pause(500);
  assert((await problemsOf(store)).some((line) => line.startsWith("fork")));
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a segment that is larger than a message arrives whole, and a full stream refuses it", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await NatsServer.start("max_payload: 32768");
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  await using _pull = pulling(store, server.url);
  await using target = disposable(new NatsTarget(server.url));
  await Deno.mkdir(`${dir}/home/ledgers/${SESSION_A}`, { recursive: true });
  const path = `${dir}/home/ledgers/${SESSION_A}/session.db`;
  await record(path, SESSION_A, entries(SESSION_A, 500, true));
  const machine = await FleetMachine.open({
    home: { dir: `${dir}/home` },
    key,
    target: target.target,
    version: "1",
    isRunning: () => true,
  });
  while (await machine.round()) await pause(50);
  await arrived(store, key, SESSION_A, path);
  assert(machine.status.shipped.bytes / machine.status.shipped.segments > 32_768, "it went in parts");
  const address = parseNats(server.url);
  const { connection, manager } = await openNats(address);
  const { state } = await manager.streams.info(address.stream);
  await manager.streams.update(address.stream, { max_bytes: state.bytes + 1000 });
  await record(path, SESSION_A, entries(SESSION_A, 500, true));
  const error = await machine.round();
  assertEquals(error?.code, "fleet.unavailable");
  assert(error!.message.includes("maximum bytes"), error!.message);
  assertEquals(machine.status.sessions.behind, 1);
  await manager.streams.update(address.stream, { max_bytes: -1 });
  await connection.close();
  assertEquals(await machine.round(), undefined);
  await arrived(store, key, SESSION_A, path);
  assertEquals(await problemsOf(store), []);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a machine that is not enrolled waits, and a login is asked for", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await NatsServer.start('authorization { user: "fleet", password: "pa:ss" }');
  const store = `${dir}/store`;
  const login = (password: string) => () => Promise.resolve(`Basic ${btoa(`fleet:${password}`)}`);
  await using _pull = pulling(store, server.url, login("pa:ss"));
  const key = await newKey();
  const path = `${dir}/a.db`;
  await record(path, SESSION_A, entries(SESSION_A, 10));
  const ship = async (password: string) => {
    await using target = disposable(new NatsTarget(server.url, login(password)));
    await new Shipper({ dir: `${dir}/cursors`, key, target: target.target }).ship(SESSION_A, path);
  };
  const error = await assertRejects(() => ship("wrong"), SbxError);
  assertEquals(error.code, "fleet.unavailable");
  assert(/authori[sz]ation/i.test(error.message), error.message);
  for (let isSent = false; !isSent; await pause(50)) {
    isSent = await ship("pa:ss").then(() => true, () => false);
  }
  await pause(500);
  assertEquals((await readEnd(sessionFolder(store, key.publicKey.id, SESSION_A))).events, 0);
  const { token } = await makeToken(store);
  await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: "late" });
  await arrived(store, key, SESSION_A, path);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("tls:// speaks TLS with a server that an authority of the settings vouches for, and with no other", async () => {
  const dir = await Deno.makeTempDir();
  const { success } = await new Deno.Command("openssl", {
    args: "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=nats".split(" ")
      .concat(
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        `${dir}/key.pem`,
        "-out",
        `${dir}/cert.pem`,
      ),
    stderr: "null",
  }).output();
  assert(success);
  await using server = await NatsServer.start(
    `tls { cert_file: "${dir}/cert.pem", key_file: "${dir}/key.pem" }`,
  );
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  const path = `${dir}/a.db`;
  await record(path, SESSION_A, entries(SESSION_A, 10));
  const url = `tls://localhost:${server.port}`;
  const ship = async (url: string) => {
    await using target = disposable(new NatsTarget(url));
    await new Shipper({ dir: `${dir}/cursors`, key, target: target.target }).ship(SESSION_A, path);
  };
  assertEquals((await assertRejects(() => ship(url), SbxError)).code, "fleet.unavailable");
  useHostNetwork({ extra_ca_file: `${dir}/cert.pem` });
  try {
    await using _pull = pulling(store, url);
    for (let isSent = false; !isSent; await pause(50)) isSent = await ship(url).then(() => true, () => false);
    await arrived(store, key, SESSION_A, path);
    await using plain = await NatsServer.start();
    const error = await assertRejects(() => ship(plain.url.replace("nats:", "tls:")), SbxError);
    assertEquals(error.code, "fleet.unavailable");
    assert(error.message.includes("tls"), error.message);
  } finally {
    useHostNetwork({});
  }
  await Deno.remove(dir, { recursive: true });
});

function disposable(target: NatsTarget) {
  return { target, [Symbol.asyncDispose]: () => target.close() };
}

Deno.test("a second, different entry of a register's number is refused by the stream", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await NatsServer.start();
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  const target = new NatsTarget(server.url);
  {
    await using _pull = pulling(store, server.url);
    while (await messagesIn(server.url).catch(() => -1) < 0) await pause(20);
    const [first, second] = [`${dir}/one`, `${dir}/two`].map((dir) => ({ dir }));
    const one = await Register.open(first, key);
    await one.begin(SESSION_A);
    const two = await Register.open(second, key);
    await two.begin(SESSION_B);
    const send = async (register: Register) =>
      target.report(await makeReport(key, { kind: "register", entry: register.after(0, 1)[0] }));
    await send(one);
    // The same one again, as after a lost answer or cursor.
    await send(one);
    const error = await assertRejects(() => send(two), SbxError);
    assertEquals(error.code, "fleet.refused");
    assert(error.message.includes("another entry 1"), error.message);
    assertEquals(await messagesIn(server.url), 1);
  }
  await target.close();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("machines and receivers leave a connection that has stalled", async () => {
  const dir = await Deno.makeTempDir();
  await using server = await NatsServer.start();
  await using relay = new Relay(server.port);
  const store = `${dir}/store`;
  const key = await enrolled(store, "laptop");
  await using _pull = pulling(store, relay.url);
  await using target = disposable(new NatsTarget(relay.url));
  const path = `${dir}/a.db`;
  const ship = async () => {
    const shipper = new Shipper({ dir: `${dir}/cursors`, key, target: target.target });
    for (let isSent = false; !isSent; await pause(50)) {
      isSent = await shipper.ship(SESSION_A, path).then(() => true, () => false);
    }
  };
  await record(path, SESSION_A, entries(SESSION_A, 3));
  await ship();
  await arrived(store, key, SESSION_A, path);
  relay.stall();
  await record(path, SESSION_A, entries(SESSION_A, 3));
  await ship();
  await arrived(store, key, SESSION_A, path);
  await Deno.remove(dir, { recursive: true });
});

/**
 * Passes connections on to a port of this machine. The ones that stall stay open, and pass on nothing more.
 */
class Relay implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #ends = new Set<Deno.Conn>();
  readonly #serving: Promise<void>;
  #generation = 0;

  constructor(port: number) {
    this.#serving = this.#serve(port);
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#listener.addr.port}`;
  }

  stall(): void {
    this.#generation++;
  }

  async #serve(port: number): Promise<void> {
    for await (const from of this.#listener) {
      const to = await Deno.connect({ hostname: "127.0.0.1", port });
      this.#ends.add(from).add(to);
      const generation = this.#generation;
      const pass = async (source: Deno.Conn, sink: Deno.Conn) => {
        const buffer = new Uint8Array(65_536);
        for (let length; (length = await source.read(buffer)) !== null;) {
          if (generation !== this.#generation) continue;
          for (let at = 0; at < length;) at += await sink.write(buffer.subarray(at, length));
        }
        await sink.closeWrite();
      };
      for (const [source, sink] of [[from, to], [to, from]]) pass(source, sink).catch(() => {});
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
    for (const end of this.#ends) {
      try {
        end.close();
      } catch {
        // Its other side has closed it.
      }
    }
  }
}
