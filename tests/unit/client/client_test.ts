import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import {
  Client,
  daemonPid,
  findUnreachableGateway,
  segment,
  serverEvents,
  SseParser,
  start,
} from "../../../lib/client/mod.ts";
import { limitChild } from "../../helper/child.ts";

const STREAM = ': comment\nevent: stdout\ndata: {"data":"ä€😀"}\n\nretry: 3\ndata:one\ndata: two\r\n\r\n' +
  "event: exit\rdata: x\r\rdata\n\nid: 7\n\nevent: lost\ndata: no end";
const EVENTS = [
  { event: "stdout", data: '{"data":"ä€😀"}' },
  { event: "message", data: "one\ntwo" },
  { event: "exit", data: "x" },
  { event: "message", data: "" },
];

Deno.test("sse: cuts between bytes do not change the events", async () => {
  const bytes = new TextEncoder().encode(STREAM);
  for (let first = 0; first <= bytes.length; first++) {
    const body = ReadableStream.from([bytes.subarray(0, first), bytes.subarray(first)]);
    assertEquals(await Array.fromAsync(serverEvents(body)), EVENTS, `cut at ${first}`);
  }
  const single = ReadableStream.from([...bytes].map((byte) => new Uint8Array([byte])));
  assertEquals(await Array.fromAsync(serverEvents(single)), EVENTS);
});

Deno.test("sse: a lost service is an error, and its earlier events are not lost", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    using conn = await listener.accept();
    await conn.read(new Uint8Array(4096));
    const answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n";
    await conn.write(new TextEncoder().encode(answer));
  })();
  const response = await fetch(`http://127.0.0.1:${listener.addr.port}/`);
  await serving;
  const events: unknown[] = [];
  const error = await assertRejects(async () => {
    for await (const event of serverEvents(response.body!)) events.push(event);
  }, SbxError);
  assertEquals(events, [{ event: "message", data: "one" }]);
  assertEquals([error.code, error.message], [
    "service.gone",
    "the service went away while the program ran",
  ]);
});

Deno.test("sse: random text never breaks the parser, wherever it is cut", () => {
  let seed = 20260101;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  const pieces = ["event: a", "data: b", "data", ":", "\n", "\r", "\r\n", "\n\n", " ", "x", "id: 1", "\0"];
  for (let round = 0; round < 500; round++) {
    const text = Array.from({ length: random(30) }, () => pieces[random(pieces.length)]).join("");
    const whole = new SseParser().push(text);
    const parser = new SseParser();
    const cut: unknown[] = [];
    for (let at = 0; at < text.length;) {
      const size = 1 + random(4);
      cut.push(...parser.push(text.slice(at, at + size)));
      at += size;
    }
    assertEquals(cut, whole, JSON.stringify(text));
  }
});

Deno.test("client: errors of the API keep their code and hint; other answers get an own code", async () => {
  const answers: Record<string, Response> = {
    "/known": Response.json({ error: "no VM", code: "vm.not_found", hint: "sbx list" }, { status: 404 }),
    "/html": new Response("<html>", { status: 500 }),
    "/other": Response.json({ message: "x" }, { status: 400 }),
  };
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    assertEquals(request.headers.get("authorization"), "Bearer secret");
    return answers[new URL(request.url).pathname].clone();
  });
  using http = Deno.createHttpClient({});
  const client = new Client(`http://127.0.0.1:${server.addr.port}`, "secret", http);
  const failed = async (path: string) => {
    const { code, hint } = await assertRejects(() => client.send("GET", path), SbxError);
    return [code, hint !== undefined];
  };
  assertEquals(await failed("/known"), ["vm.not_found", true]);
  assertEquals(await failed("/html"), ["gateway.bad_answer", true]);
  assertEquals(await failed("/other"), ["gateway.bad_answer", true]);
  await server.shutdown();
  assertEquals(await failed("/known"), ["gateway.unreachable", true]);
});

Deno.test("client: names cannot leave their segment, and only a socket's query contains the token", () => {
  assertEquals(segment("..x?y#z"), "..x%3Fy%23z");
  for (const bad of ["", ".", "..", "a/b", "/"]) {
    const { code, message } = assertThrows(() => segment(bad), SbxError);
    assertEquals([code, message], ["vm.not_found", `"${bad}" is not the name or id of a VM`]);
  }
  using http = Deno.createHttpClient({});
  const client = new Client("http://127.0.0.1:1", "t&1", http);
  assertEquals(
    client.socketUrl("/terminal/a", { argv: '["x y"]' }),
    "ws://127.0.0.1:1/terminal/a?argv=%5B%22x+y%22%5D&token=t%261",
  );
});

Deno.test("client: a pid file with the pid of another program or another home's daemon is ignored", async () => {
  const dir = await Deno.makeTempDir();
  const place = home(new Map([["SBX_HOME", dir]]));
  await Deno.mkdir(place.runDir);
  for (const text of ["", "x", "0", "1", "-1", "999999999", String(Deno.pid)]) {
    await Deno.writeTextFile(place.servicePidFile, text);
    assertEquals(await daemonPid(place, "service"), undefined, text);
  }
  // A program that looks like the gateway of another home.
  const child = limitChild(new Deno.Command("sh", {
    args: ["-c", "while :; do sleep 1; done", "gateway"],
    env: { SBX_HOME: "/elsewhere" },
  }).spawn());
  try {
    await Deno.writeTextFile(place.gatewayPidFile, String(child.pid));
    assertEquals(await daemonPid(place, "gateway"), undefined);
    const elsewhere = home(new Map([["SBX_HOME", "/elsewhere"]]));
    assertEquals(
      await daemonPid({ ...elsewhere, gatewayPidFile: place.gatewayPidFile }, "gateway"),
      child.pid,
    );
    const lost = { ...place, runDir: elsewhere.runDir };
    assertEquals(await findUnreachableGateway(lost), { pid: child.pid, missing: "socket" });
    using _socket = Deno.listen({ transport: "unix", path: place.gatewaySocket });
    assertEquals(await findUnreachableGateway(lost), { pid: child.pid, missing: "port file" });
    await Deno.writeTextFile(place.gatewayPortFile, "1");
    assertEquals(await findUnreachableGateway(lost), undefined);
  } finally {
    child.kill();
    assert(!(await child.status).success);
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("start: an unusable home is an error before any daemon is started", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(dir, "file"), "");
    const failed = async (path: string) => {
      const place = home(new Map([["SBX_HOME", path]]));
      return (await assertRejects(() => start(place), SbxError)).code;
    };
    assertEquals(await failed(join(dir, "file")), "home.unusable");
    assertEquals(await failed(join(dir, "ä".repeat(50))), "home.too_long");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
