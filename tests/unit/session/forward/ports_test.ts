/** Ports of the host, before a guest that echoes. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  type ConnectPort,
  PORT_CONNECTIONS_MAX,
  type PortRecorder,
  Ports,
  PORTS_MAX,
} from "../../../../lib/session/forward/mod.ts";

/** A guest whose program answers with what it got, after the client's side has ended. */
const echo: ConnectPort = async (_, { input, output }) => {
  const pieces: string[] = [];
  for (let data = await input(); data !== null; data = await input()) pieces.push(data);
  for (const data of pieces) await output("stdout", data);
  await output("stderr", btoa("a note of sbx"));
  return 0;
};

const person = { client: "test" };
const free: PortRecorder = { opening: () => Promise.resolve("event"), closed: () => {} };

async function withPorts(
  connect: ConnectPort,
  work: (ports: Ports) => Promise<void> | void,
  recorder = free,
): Promise<void> {
  const ports = new Ports(connect, recorder, () => new Set([19222]));
  try {
    await work(ports);
  } finally {
    ports.closeAll();
  }
}

async function talk(port: number, text: string): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(new TextEncoder().encode(text));
  await conn.closeWrite();
  return await new Response(conn.readable).text().catch(() => "reset");
}

Deno.test("a client ends its side and still gets the answer, and 100 at once do", () =>
  withPorts(echo, async (ports) => {
    const { host_port } = await ports.open(5173, person);
    assertEquals(await talk(host_port, "hello"), "hello");
    const texts = Array.from({ length: 100 }, (_, i) => `client ${i}`);
    assertEquals(await Promise.all(texts.map((text) => talk(host_port, text))), texts);
  }));

Deno.test("ports are listed, opened once, and closed with their connections", () =>
  withPorts(() => new Promise(() => {}), async (ports) => {
    const port = await ports.open(5173, person);
    assertEquals(await ports.open(5173, person), port);
    assertEquals((await assertRejects(() => ports.open(5173, person, 1), SbxError)).code, "port.conflict");
    assertEquals(
      (await assertRejects(() => ports.open(80, person, port.host_port), SbxError)).code,
      "port.conflict",
    );
    using conn = await Deno.connect({ hostname: "127.0.0.1", port: port.host_port });
    while (ports.list()[0].connections === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    ports.close(5173, person);
    assertEquals(await conn.read(new Uint8Array(1)).catch(() => null), null);
    assertEquals(ports.list(), []);
    assertEquals(assertThrows(() => ports.close(5173, person), SbxError).code, "port.not_found");
  }));

Deno.test("ports that are offered are open, except one that a person has closed", () =>
  withPorts(echo, async (ports) => {
    await ports.offer([5173, 3000], person);
    ports.close(3000, person);
    await ports.offer([5173, 3000, 8080], person);
    assertEquals(ports.list().map(({ guest_port }) => guest_port), [5173, 8080]);
    await ports.open(3000, person);
    await ports.offer([3000], person);
    assertEquals(ports.list().length, 3);
    // Beyond the limit they are left out.
    await ports.offer(Array.from({ length: PORTS_MAX }, (_, i) => 20_000 + i), person);
    assertEquals(ports.list().length, PORTS_MAX);
  }));

Deno.test("ports listen on 127.0.0.1 only, and on another one where theirs is taken", () =>
  withPorts(echo, async (ports) => {
    using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const taken = (other.addr as Deno.NetAddr).port;
    const { host_port } = await ports.open(taken, person);
    assert(host_port !== taken);
    const elsewhere = await Deno.connect({ hostname: "127.0.0.2", port: host_port }).catch(() => undefined);
    assertEquals(elsewhere, undefined);
  }));

Deno.test("a reserved port of the host leads into no VM", () =>
  withPorts(echo, async (ports) => {
    const { code } = await assertRejects(() => ports.open(5173, person, 19222), SbxError);
    assertEquals(code, "port.reserved");
    assert((await ports.open(19222, person)).host_port !== 19222);
  }));

Deno.test("a refused connection ends without a byte", () =>
  withPorts(() => Promise.resolve(126), async (ports) => {
    assert(["", "reset"].includes(await talk((await ports.open(5173, person)).host_port, "hello")));
  }));

Deno.test("more ports or connections than the limits are refused", () =>
  withPorts(() => new Promise(() => {}), async (ports) => {
    const { host_port } = await ports.open(5173, person);
    const open = [];
    for (let i = 0; i < PORT_CONNECTIONS_MAX; i++) {
      open.push(await Deno.connect({ hostname: "127.0.0.1", port: host_port }));
    }
    using last = await Deno.connect({ hostname: "127.0.0.1", port: host_port });
    assertEquals(await last.read(new Uint8Array(1)).catch(() => null), null);
    assertEquals(ports.list()[0].connections, PORT_CONNECTIONS_MAX);
    for (const conn of open) conn.close();
    for (let port = 1; port < PORTS_MAX; port++) await ports.open(port, person);
    assertEquals((await assertRejects(() => ports.open(6000, person), SbxError)).code, "port.limit");
  }));

Deno.test("a port takes nothing before the rules allow it, and none where they refuse; opening and closing are told", async () => {
  const told: unknown[] = [];
  const verdict = Promise.withResolvers<string>();
  const asked = Promise.withResolvers<number>();
  await withPorts(echo, async (ports) => {
    const opening = ports.open(5173, { client: "cli", trace_id: "t" });
    const twice = ports.open(5173, person);
    const port = await asked.promise;
    const answer = talk(port, "hello");
    assertEquals(ports.list(), []);
    verdict.resolve("e1");
    assertEquals(await answer, "hello");
    assertEquals((await opening).host_port, (await twice).host_port);
    ports.close(5173, person);
    const { code } = await assertRejects(() => ports.open(5432, person), SbxError);
    assertEquals([code, ports.list()], ["policy.blocked", []]);
    // Its guest reports it again with each new port.
    await ports.offer([8000], person);
    await ports.offer([8000], person);
    assertEquals(told, [
      ["open", 5173, port, "cli", "t"],
      ["close", 5173, port, "test", "e1"],
      ["open", 5432, "test"],
      ["open", 8000, "test"],
    ]);
  }, {
    opening({ guest_port, host_port, client, trace_id }) {
      told.push([
        "open",
        guest_port,
        ...(guest_port === 5173 ? [host_port] : []),
        client,
        ...(trace_id ? [trace_id] : []),
      ]);
      asked.resolve(host_port);
      if (guest_port === 5173) return verdict.promise;
      return Promise.reject(new SbxError("policy.blocked", "no"));
    },
    closed: ({ guest_port, host_port, client }, event) =>
      void told.push(["close", guest_port, host_port, client, event]),
  });
});

Deno.test("a port whose VM ends while the rules are asked is not opened", async () => {
  const verdict = Promise.withResolvers<string>();
  const asked = Promise.withResolvers<number>();
  const opening = (work: { host_port: number }) => (asked.resolve(work.host_port), verdict.promise);
  await withPorts(echo, async (ports) => {
    const open = ports.open(5173, person);
    const port = await asked.promise;
    ports.closeAll();
    verdict.resolve("e1");
    assertEquals((await assertRejects(() => open, SbxError)).code, "vm.wrong_state");
    assertEquals(await talk(port, "x").catch(() => "refused"), "refused");
  }, { opening, closed: () => {} });
});
