/** Ports of the host, before a guest that echoes. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type ConnectPort, PORT_CONNECTIONS_MAX, Ports, PORTS_MAX } from "../../../lib/port/mod.ts";

/** A guest whose program answers with what it got, after the client's side has ended. */
const echo: ConnectPort = async (_, { input, output }) => {
  const pieces: string[] = [];
  for (let data = await input(); data !== null; data = await input()) pieces.push(data);
  for (const data of pieces) await output("stdout", data);
  await output("stderr", btoa("a note of sbx"));
  return 0;
};

async function withPorts(connect: ConnectPort, work: (ports: Ports) => Promise<void> | void): Promise<void> {
  const ports = new Ports(connect, () => new Set([19222]));
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
    const { host_port } = ports.open(5173);
    assertEquals(await talk(host_port, "hello"), "hello");
    const texts = Array.from({ length: 100 }, (_, i) => `client ${i}`);
    assertEquals(await Promise.all(texts.map((text) => talk(host_port, text))), texts);
  }));

Deno.test("ports are listed, opened once, and closed with their connections", () =>
  withPorts(() => new Promise(() => {}), async (ports) => {
    const port = ports.open(5173);
    assertEquals(ports.open(5173), port);
    assertEquals(assertThrows(() => ports.open(5173, 1), SbxError).code, "port.conflict");
    assertEquals(assertThrows(() => ports.open(80, port.host_port), SbxError).code, "port.conflict");
    using conn = await Deno.connect({ hostname: "127.0.0.1", port: port.host_port });
    while (ports.list()[0].connections === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    ports.close(5173);
    assertEquals(await conn.read(new Uint8Array(1)).catch(() => null), null);
    assertEquals(ports.list(), []);
    assertEquals(assertThrows(() => ports.close(5173), SbxError).code, "port.not_found");
  }));

Deno.test("ports that are offered are open, except one that a person has closed", () =>
  withPorts(echo, (ports) => {
    ports.offer([5173, 3000]);
    ports.close(3000);
    ports.offer([5173, 3000, 8080]);
    assertEquals(ports.list().map(({ guest_port }) => guest_port), [5173, 8080]);
    ports.open(3000);
    ports.offer([3000]);
    assertEquals(ports.list().length, 3);
    // Beyond the limit they are left out.
    ports.offer(Array.from({ length: PORTS_MAX }, (_, i) => 20_000 + i));
    assertEquals(ports.list().length, PORTS_MAX);
  }));

Deno.test("ports listen on 127.0.0.1 only, and on another one where theirs is taken", () =>
  withPorts(echo, async (ports) => {
    using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const taken = (other.addr as Deno.NetAddr).port;
    const { host_port } = ports.open(taken);
    assert(host_port !== taken);
    const elsewhere = await Deno.connect({ hostname: "127.0.0.2", port: host_port }).catch(() => undefined);
    assertEquals(elsewhere, undefined);
  }));

Deno.test("a reserved port of the host leads into no VM", () =>
  withPorts(echo, (ports) => {
    assertEquals(assertThrows(() => ports.open(5173, 19222), SbxError).code, "port.reserved");
    assert(ports.open(19222).host_port !== 19222);
  }));

Deno.test("a refused connection ends without a byte", () =>
  withPorts(() => Promise.resolve(126), async (ports) => {
    assert(["", "reset"].includes(await talk(ports.open(5173).host_port, "hello")));
  }));

Deno.test("more ports or connections than the limits are refused", () =>
  withPorts(() => new Promise(() => {}), async (ports) => {
    const { host_port } = ports.open(5173);
    const open = [];
    for (let i = 0; i < PORT_CONNECTIONS_MAX; i++) {
      open.push(await Deno.connect({ hostname: "127.0.0.1", port: host_port }));
    }
    using last = await Deno.connect({ hostname: "127.0.0.1", port: host_port });
    assertEquals(await last.read(new Uint8Array(1)).catch(() => null), null);
    assertEquals(ports.list()[0].connections, PORT_CONNECTIONS_MAX);
    for (const conn of open) conn.close();
    for (let port = 1; port < PORTS_MAX; port++) ports.open(port);
    assertEquals(assertThrows(() => ports.open(6000), SbxError).code, "port.limit");
  }));
