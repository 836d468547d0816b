/**
 * Strangers and machines gone bad before a fleet's receiver: bodies that never end, connections that only
 * stay open, heads that are not signed or signed for something else.
 */
import { assert, assertEquals } from "@std/assert";
import { CONNECTIONS_MAX, Front } from "../../../lib/fleet/receive/front.ts";
import { makeToken } from "../../../lib/fleet/receive/mod.ts";
import { signUpload, UPLOAD_HEADER } from "../../../lib/fleet/ship/http.ts";
import { HttpTarget } from "../../../lib/fleet/ship/mod.ts";
import { formatPublicKey } from "../../../lib/release/signing/mod.ts";
import { newKey, record, SESSION_A, TestFleet, webEvent } from "../../helper/fleet.ts";
import { ReceiverProcess } from "../../helper/receiver_process.ts";

const MIB = 1024 * 1024;
const encoder = new TextEncoder();

interface Sent extends Disposable {
  /** status line of the answer, which comes before the body has ended */
  status(): Promise<string>;
}

/** Sends a head and a part of a body that never ends. */
async function begin(
  port: number,
  headers: Record<string, string>,
  body = new Uint8Array(1000),
): Promise<Sent> {
  const conn = await Deno.connect({ port });
  const lines = Object.entries({ host: "fleet.test", ...headers }).map(([name, value]) =>
    `${name}: ${value}\r\n`
  );
  await conn.write(encoder.encode(`POST /v1/segments HTTP/1.1\r\n${lines.join("")}\r\n`));
  // The receiver may have refused it by now.
  const written = (async () => {
    for (let at = 0; at < body.length;) at += await conn.write(body.subarray(at));
  })().catch(() => {});
  return {
    async status() {
      const bytes = new Uint8Array(4096);
      const count = await conn.read(bytes) ?? 0;
      return new TextDecoder().decode(bytes.subarray(0, count)).split("\r\n")[0];
    },
    [Symbol.dispose]: () => {
      conn.close();
      written.catch(() => {});
    },
  };
}

const portOf = (url: string) => Number(new URL(url).port);
const incoming = (store: string) => [...Deno.readDirSync(`${store}/incoming`)].length;

Deno.test("bodies of strangers are refused by their heads, and take no memory", async () => {
  await using fleet = await TestFleet.start();
  const receiver = await new ReceiverProcess(fleet.store).ready();
  const rssMib = () =>
    Number(/VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${receiver.pid}/status`))![1]) / 1024;
  try {
    await fetch(`${receiver.url}/healthz`).then((answer) => answer.body?.cancel());
    const before = rssMib();
    const body = new Uint8Array(32 * MIB);
    const sent = await Promise.all(
      Array.from(
        { length: 20 },
        () => begin(portOf(receiver.url), { "content-length": String(48 * MIB) }, body),
      ),
    );
    for (const each of sent) assertEquals(await each.status(), "HTTP/1.1 403 Forbidden");
    assert(rssMib() - before < 200, `${rssMib() - before} MiB more than before`);
    sent.forEach((each) => each[Symbol.dispose]());
    assertEquals(incoming(fleet.store), 0);
  } finally {
    await receiver.kill();
  }
});

Deno.test("a head counts for its machine, path, length and body alone", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const stranger = await newKey();
  const port = fleet.server.addr.port;
  const body = encoder.encode("not a segment");
  const good = await signUpload(key, "v1/segments", body);
  const length = String(body.length);
  const [machine, hash, signature] = good.split(" ");
  const post = async (header: string, bytes: Uint8Array<ArrayBuffer> = body) => {
    const answer = await fetch(`${fleet.url}/v1/segments`, {
      method: "POST",
      headers: { [UPLOAD_HEADER]: header },
      body: bytes,
    });
    return [answer.status, (await answer.json()).code];
  };
  const forged = (await signUpload(stranger, "v1/segments", body)).split(" ");
  assertEquals(await post(`${machine} ${hash} ${forged[2]}`), [403, "fleet.upload.unsigned"]);
  assertEquals(await post(forged.join(" ")), [403, "fleet.machine.unknown"]);
  assertEquals(await post(await signUpload(key, "v1/reports", body)), [403, "fleet.upload.unsigned"]);
  assertEquals(await post(`${machine} ${"0".repeat(64)} ${signature}`), [403, "fleet.upload.unsigned"]);
  assertEquals(await post(good, encoder.encode("not a segmenT")), [400, "fleet.upload.invalid"]);
  assertEquals(await post(good), [400, "fleet.segment.invalid"]);
  using chunked = await begin(
    port,
    { [UPLOAD_HEADER]: good, "transfer-encoding": "chunked" },
    encoder.encode("d\r\n"),
  );
  assertEquals(await chunked.status(), "HTTP/1.1 403 Forbidden");
  using _short = await begin(port, { [UPLOAD_HEADER]: good, "content-length": length }, body.subarray(0, 5));
  assertEquals(await post(good), [400, "fleet.segment.invalid"]);
});

Deno.test("one machine has two bodies on the way, and keeps no other machine out", async () => {
  await using fleet = await TestFleet.start();
  const [bad, good] = [await fleet.machine("bad"), await fleet.machine("good")];
  const body = new Uint8Array(40 * MIB);
  const headers = {
    [UPLOAD_HEADER]: await signUpload(bad, "v1/segments", body),
    "content-length": String(body.length),
  };
  const port = fleet.server.addr.port;
  const held = [];
  for (let at = 0; at < 2; at++) {
    held.push(await begin(port, headers));
    while (incoming(fleet.store) < at + 1) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  for (let at = 0; at < 3; at++) {
    using more = await begin(port, headers);
    assertEquals(await more.status(), "HTTP/1.1 429 Too Many Requests");
  }
  const path = `${fleet.dir}/session.db`;
  await record(path, SESSION_A, [{ event: webEvent(SESSION_A) }]);
  assertEquals((await fleet.shipper(good).ship(SESSION_A, path)).rows, 2);
  held.forEach((each) => each[Symbol.dispose]());
  while (incoming(fleet.store) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
});

Deno.test("connections that say nothing keep nobody out", async () => {
  await using fleet = await TestFleet.start();
  const { token } = await makeToken(fleet.store);
  const key = await newKey();
  const silent: Deno.TcpConn[] = [];
  try {
    for (let at = 0; at < CONNECTIONS_MAX + 20; at++) {
      silent.push(await Deno.connect({ port: fleet.server.addr.port }));
    }
    await new HttpTarget(fleet.url).enrol({
      token,
      public_key: formatPublicKey(key.publicKey),
      name: "late",
    });
    const path = `${fleet.dir}/session.db`;
    await record(path, SESSION_A, [{ event: webEvent(SESSION_A) }]);
    assertEquals((await fleet.shipper(key).ship(SESSION_A, path)).rows, 2);
    // Those that came first lost their places.
    assertEquals(await silent[0].read(new Uint8Array(1)).catch(() => null), null);
  } finally {
    for (const conn of silent) conn.close();
  }
});

Deno.test("enrolments that fail keep out no machine with a token", async () => {
  await using fleet = await TestFleet.start();
  const url = `${fleet.url}/v1/machines`;
  const statuses = new Set<number>();
  for (let at = 0; at < 50; at++) {
    const answer = await fetch(url, { method: "POST", body: "{" });
    statuses.add(answer.status);
    await answer.body?.cancel();
  }
  assertEquals([...statuses], [400, 429]);
  const { token } = await makeToken(fleet.store);
  const key = await newKey();
  const public_key = formatPublicKey(key.publicKey);
  const answer = await fetch(url, {
    method: "POST",
    body: JSON.stringify({ token, public_key, name: "new" }),
  });
  assertEquals([answer.status, Object.keys(await answer.json())], [201, ["machine_id"]]);
});

Deno.test("a sender with a network of IPv6 has the places of one address", async () => {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/http.sock`;
  await using _server = Deno.serve({ path, onListen() {} }, () => new Response("ok\n"));
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  // Connections come from loopback here: their addresses are given to them.
  const addresses: string[] = [];
  const accept = listener.accept.bind(listener);
  Object.defineProperty(listener, "accept", {
    value: async () =>
      Object.defineProperty(await accept(), "remoteAddr", { value: { hostname: addresses.shift() } }),
  });
  const front = new Front(listener, path);
  const conns: Deno.Conn[] = [];
  const open = async (address: string) => {
    addresses.push(address);
    const conn = await Deno.connect({ port });
    conns.push(conn);
    return conn;
  };
  try {
    const honest = await open("2001:db8:9::1");
    await honest.write(encoder.encode("GET / HTTP/1.1\r\n"));
    for (let at = 0; at < CONNECTIONS_MAX + 20; at++) await open(`2001:db8:6:6:${at.toString(16)}::1`);
    await honest.write(encoder.encode("host: fleet.test\r\n\r\n"));
    const bytes = new Uint8Array(4096);
    const text = new TextDecoder().decode(bytes.subarray(0, await honest.read(bytes) ?? 0));
    assertEquals(text.split("\r\n")[0], "HTTP/1.1 200 OK");
  } finally {
    for (const conn of conns) conn.close();
    front.close();
    front.end();
    await Deno.remove(dir, { recursive: true });
  }
});
