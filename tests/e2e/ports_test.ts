/**
 * Ports of the host that lead to programs of a VM: both ways, half-closes, many at once, policy, their end.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { closeQuietly } from "../../lib/base/wire/mod.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";

const DENY_PORT = `
[profiles.rules.no-database]
action = "block"
match = 'process.activity.executable == "sbx-port" && process.activity.argv[1] == "5432"'
reason = "no database"
[profiles.rules.no-connection]
action = "block"
match = 'process.activity.command == "sbx-port 5433"'
reason = "no connection"
[profiles.rules.no-keys]
action = "block"
match = 'file.activity.operation == "export" && file.activity.ext == "key"'
reason = "keys stay"
`;
/** Listens on 7000, on ::1 only on 7001; sends back what it got when the client has ended its side. */
const ECHO = `
import socket, threading
def serve(conn):
    data = b""
    while chunk := conn.recv(65536): data += chunk
    conn.sendall(data); conn.close()
def listen(family, address, port):
    server = socket.socket(family); server.bind((address, port)); server.listen(200)
    while True: threading.Thread(target=serve, args=(server.accept()[0],)).start()
threading.Thread(target=listen, args=(socket.AF_INET6, "::1", 7001)).start()
listen(socket.AF_INET, "127.0.0.1", 7000)
`;
const MEBIBYTE = 1024 * 1024;

Deno.test("ports of a VM", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const forward = async (port: number): Promise<number> =>
    JSON.parse(await sbx.ok("port", "dev", `${port}`, "--json")).host_port;
  const talk = async (port: number, bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> => {
    const conn = await Deno.connect({ hostname: "127.0.0.1", port });
    const answer = new Response(conn.readable).bytes();
    try {
      for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
      await conn.closeWrite();
    } catch {
      // refused: it is closed
    }
    const received = await answer.catch(() => new Uint8Array());
    closeQuietly(conn);
    return received;
  };
  const send = async (port: number, text: string) =>
    new TextDecoder().decode(await talk(port, new TextEncoder().encode(text)));
  try {
    await sbx.ok("profile", "copy", "code", "mine");
    await Deno.writeTextFile(`${sbx.home}/profiles/mine/profile.toml`, DENY_PORT, { append: true });
    await sbx.ok("create", "dev", "--profile", "mine");
    await sbx.ok("exec", "--detach", "dev", "--", "python3", "-c", ECHO);
    const echo = await forward(7000);

    await t.step("a client ends its side and still gets its answer; ::1 is reached too", async () => {
      await eventually("the server listens", async () => await send(echo, "hello") === "hello");
      assertEquals(await send(await forward(7001), "six"), "six");
      assertStringIncludes(await sbx.ok("port", "dev"), `127.0.0.1:${echo}`);
      assertEquals(await sbx.ok("open", "dev", "7000"), `http://127.0.0.1:${echo}/\n`);
    });

    await t.step(
      "a development port is there once a server listens, and stays away once it was removed",
      async () => {
        const serve = (port: number) =>
          sbx.ok(
            "exec",
            "--detach",
            "dev",
            "--",
            "python3",
            "-m",
            "http.server",
            "--bind",
            "127.0.0.1",
            `${port}`,
          );
        const listed = async () =>
          JSON.parse(await sbx.ok("port", "dev", "--json")).ports as {
            guest_port: number;
            host_port: number;
          }[];
        const at = async (port: number) => (await listed()).find(({ guest_port }) => guest_port === port);
        await serve(5173);
        await eventually("it is forwarded", async () => await at(5173) !== undefined);
        const { host_port } = (await at(5173))!;
        assertStringIncludes(
          await (await fetch(`http://127.0.0.1:${host_port}/`)).text(),
          "Directory listing",
        );
        await sbx.ok("port", "dev", "5173", "--remove");
        await serve(8000);
        await eventually("the other is forwarded", async () => await at(8000) !== undefined);
        assertEquals(await at(5173), undefined);
      },
    );

    await t.step("bytes arrive as they were sent, and fast", async () => {
      const bytes = new Uint8Array(4 * MEBIBYTE);
      for (let at = 0; at < bytes.length; at += 65_536) {
        crypto.getRandomValues(bytes.subarray(at, at + 65_536));
      }
      const began = performance.now();
      assert((await talk(echo, bytes)).every((byte, at) => byte === bytes[at]));
      console.log(`      ${(8000 / (performance.now() - began)).toFixed(1)} MiB/s, both ways together`);
    });

    await t.step("100 connections at once", async () => {
      const texts = Array.from({ length: 100 }, (_, i) => `client ${i} ${"x".repeat(i)}`);
      assertEquals(await Promise.all(texts.map((text) => send(echo, text))), texts);
    });

    await t.step("each port and each connection is an event, and policy forbids some", async () => {
      const { code, stderr } = await sbx.cli("port", "dev", "5432");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "no database");
      assertEquals(await send(await forward(5433), "select 1"), "");
      assertEquals(await send(await forward(7999), "nobody listens"), "");
      await sbx.ok("port", "dev", "7999", "--remove");
      const { events }: { events: DecidedEvent[] } = JSON.parse(await sbx.ok("events", "dev", "--json"));
      const of = (command: string) => events.filter(({ process }) => process?.activity.command === command);
      assertStringIncludes(await sbx.ok("why", of("sbx-port 5432 open")[0].common.event_id), "no-database");
      assertStringIncludes(await sbx.ok("why", of("sbx-port 5433")[0].common.event_id), "no-connection");
      assertEquals(of("sbx-port 7001").map(({ common }) => common.event_type), [
        "process.exec",
        "process.exit",
      ]);
      const [opened, closed] = of("sbx-port 7999 open").map(({ common }) => common);
      assertEquals([opened.event_type, closed.event_type], ["process.exec", "process.exit"]);
      assertEquals(closed.labels.event_id, opened.event_id);
      for (const { actor, labels } of [opened, closed]) {
        assertEquals([actor, labels.host_port], ["host", "7999"]);
        assert(labels.user && labels.client.startsWith("sbx"), JSON.stringify(labels));
      }
      const development = of("sbx-port 5173 open")[0].common.labels;
      assertEquals([development.port, development.client], ["open", "sbx-process"]);
    });

    await t.step("invalid ports are refused", async () => {
      for (const spec of ["0", "65536", "x", "1:2:3", "80:"]) {
        assertEquals((await sbx.cli("port", "dev", spec)).code, 2, spec);
      }
      assertEquals((await sbx.cli("port", "dev", "7000:1")).code, 1);
      assertEquals((await sbx.api("DELETE", "/vms/dev/ports/..%2f")).status, 404);
      assertEquals((await sbx.api("DELETE", "/vms/dev/ports/12")).status, 404);
    });

    await t.step("a port is removed, and the others end with the VM", async () => {
      await sbx.ok("port", "dev", "7001", "--remove");
      assert(!(await sbx.ok("port", "dev")).includes("7001"));
      await sbx.ok("stop", "dev");
      // Deno closes a listener a moment after it was told to.
      await eventually(
        "the port takes no connection",
        () =>
          Deno.connect({ hostname: "127.0.0.1", port: echo }).then(
            (conn) => (conn.close(), false),
            () => true,
          ),
      );
      assertEquals(await sbx.ok("port", "dev", "--json"), '{\n  "ports": []\n}\n');
    });

    await t.step("files of a stopped VM are on its record, and its rules hold for them", async () => {
      await Deno.writeTextFile(`${sbx.home}/note.txt`, "note");
      await Deno.writeTextFile(`${sbx.home}/host.key`, "key");
      await sbx.ok("cp", `${sbx.home}/note.txt`, "dev:note.txt");
      await sbx.ok("cp", `${sbx.home}/host.key`, "dev:host.key");
      assertStringIncludes((await sbx.cli("cp", "dev:host.key", `${sbx.home}/out.key`)).stderr, "keys stay");
      await assertRejects(() => Deno.lstat(`${sbx.home}/out.key`), Deno.errors.NotFound);
      const { events }: { events: DecidedEvent[] } = JSON.parse(
        await sbx.ok("events", "dev", "--family", "file", "--json"),
      );
      const moved = events.filter(({ common }) => common.actor === "host").map((
        { common, file, decision },
      ) => [
        file?.activity.operation,
        file?.activity.path,
        common.labels.blake3.length,
        decision,
      ]);
      assertEquals(moved, [
        ["import", "/workspace/note.txt", 64, "allow"],
        ["import", "/workspace/host.key", 64, "allow"],
        ["export", "/workspace/host.key", 64, "block"],
      ]);
      await sbx.ok("start", "dev");
      assertEquals(await sbx.ok("exec", "dev", "--", "cat", "/workspace/note.txt"), "note");
      await sbx.ok("verify", "dev");
    });
  } finally {
    await sbx.dispose();
  }
});
