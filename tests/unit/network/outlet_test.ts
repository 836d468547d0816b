/** Responses on a guest's connection: their bytes, and whether the connection serves another request. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { BufferedConnection, DeadlineWatch } from "../../../lib/network/connection.ts";
import { ClientLost } from "../../../lib/network/fault.ts";
import { GuestOutlet, type OutletOptions } from "../../../lib/network/guest/guest_outlet.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { FakeStream } from "../../helper/fake_stream.ts";

const text = (value: string) => new TextEncoder().encode(value);
const HEADERS: Header[] = [["x-a", "1"]];

/** An outlet, and its guest. */
function open(options: Partial<OutletOptions> = {}) {
  const stream = new FakeStream();
  const connection = new BufferedConnection(stream, new DeadlineWatch());
  const gone: string[] = [];
  const outlet = new GuestOutlet(connection, {
    method: "GET",
    old: false,
    alive: true,
    idleMs: 60_000,
    signal: new AbortController().signal,
    onGone: () => gone.push("options"),
    ...options,
  });
  return { outlet, stream, connection, gone };
}

/** What an outlet wrote, and its state: alive, begun, and whether its connection has no deadline. */
function stateOf({ outlet, stream, connection }: ReturnType<typeof open>) {
  connection.close();
  return [stream.writes.join(""), outlet.alive, outlet.begun, connection.deadline.at === Infinity];
}

Deno.test("a whole response is one write", async () => {
  const cases: [
    options: Partial<OutletOptions>,
    status: number,
    declared: string | undefined,
    wire: string,
  ][] = [
    [{}, 200, undefined, "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nhi"],
    [{}, 299, undefined, "HTTP/1.1 299 \r\nx-a: 1\r\ncontent-length: 2\r\n\r\nhi"],
    [{}, 200, "9", "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nhi"],
    [
      { old: true },
      200,
      undefined,
      "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nhi",
    ],
    [
      { alive: false },
      404,
      undefined,
      "HTTP/1.1 404 Not Found\r\nx-a: 1\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
    ],
    [{ method: "HEAD" }, 200, "9", "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 9\r\n\r\n"],
    [{ method: "HEAD" }, 200, undefined, "HTTP/1.1 200 OK\r\nx-a: 1\r\n\r\n"],
    [{}, 204, undefined, "HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n"],
    [{}, 304, "7", "HTTP/1.1 304 Not Modified\r\nx-a: 1\r\ncontent-length: 7\r\n\r\n"],
  ];
  for (const [options, status, declared, wire] of cases) {
    const guest = open(options);
    assertEquals(guest.outlet.begun, false);
    await guest.outlet.sendWhole(status, HEADERS, text("hi"), declared);
    assertEquals(guest.stream.written.length, 1);
    assertEquals(stateOf(guest), [wire, options.alive ?? true, true, true]);
  }
});

Deno.test("a response of sbx is JSON, with the status of its error", async () => {
  const json = (status: string, body: unknown) => {
    const line = JSON.stringify(body) + "\n";
    return `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${line.length}\r\n\r\n${line}`;
  };
  const sent = open();
  await sent.outlet.sendJson(400, { a: 1 });
  assertEquals(stateOf(sent)[0], json("400 Bad Request", { a: 1 }));
  const failed = open();
  await failed.outlet.sendError(new SbxError("upstream.timeout", "too late", { hint: "wait" }));
  const [head, body] = (stateOf(failed)[0] as string).split("\r\n\r\n");
  assertEquals([head.split("\r\n")[0], JSON.parse(body).code, JSON.parse(body).error], [
    "HTTP/1.1 504 Gateway Timeout",
    "upstream.timeout",
    "too late",
  ]);
});

Deno.test("a response in pieces has its length, or chunks, or ends with its connection", async () => {
  const cases: [options: Partial<OutletOptions>, length: number | undefined, wire: string, alive: boolean][] =
    [
      [{}, 4, "content-length: 4\r\n\r\nabcd", true],
      [{ old: true }, 4, "content-length: 4\r\nconnection: keep-alive\r\n\r\nabcd", true],
      [
        {},
        undefined,
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nx-sum: 1\r\n\r\n",
        true,
      ],
      [{ old: true }, undefined, "connection: close\r\n\r\nabcd", false],
      [{ alive: false }, 4, "content-length: 4\r\nconnection: close\r\n\r\nabcd", false],
    ];
  for (const [options, length, wire, alive] of cases) {
    for (const isFlushed of [true, false]) {
      const guest = open(options);
      const { outlet, stream } = guest;
      outlet.begin(200, HEADERS, length);
      assertEquals([outlet.begun, stream.written.length], [false, 0]);
      if (isFlushed) {
        await outlet.flush();
        assertEquals([outlet.begun, stream.writes[0].endsWith("\r\n\r\n")], [true, true]);
      }
      await outlet.write(text("abc"));
      assertEquals(outlet.begun, true);
      await outlet.write(text("d"));
      await outlet.end([["x-sum", "1"]]);
      assertEquals(stateOf(guest), [`HTTP/1.1 200 OK\r\nx-a: 1\r\n${wire}`, alive, true, true]);
    }
  }
  const empty = open();
  empty.outlet.begin(200, [], undefined);
  await empty.outlet.end([]);
  assertEquals(stateOf(empty), [
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    true,
    true,
    true,
  ]);
});

Deno.test("a response that is cut ends the connection", () => {
  const guest = open();
  guest.outlet.begin(200, [], 9);
  guest.outlet.cut();
  assertEquals([guest.connection.closed, guest.outlet.alive], [true, false]);
});

Deno.test("an upgrade is the last response of its connection, whose bytes are from then on the protocol's", async () => {
  const guest = open();
  guest.outlet.watch(() => guest.gone.push("watch"));
  assertEquals(await guest.outlet.upgrade(HEADERS, "websocket"), guest.connection);
  guest.stream.feed(null);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(guest.gone, []);
  assertEquals(stateOf(guest), [
    "HTTP/1.1 101 Switching Protocols\r\nx-a: 1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    false,
    true,
    true,
  ]);
});

Deno.test("a client that is gone is told of, and gets no other response", async () => {
  const watched = open();
  watched.connection.deadline.set(60_000);
  watched.outlet.watch(() => watched.gone.push("watch"));
  assertEquals(watched.connection.deadline.at, Infinity);
  watched.stream.feed(null);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals([watched.gone, watched.outlet.alive], [["options", "watch"], false]);
  watched.connection.close();

  const sends: ((outlet: GuestOutlet) => Promise<unknown>)[] = [
    (outlet) => outlet.sendWhole(200, [], text("hi")),
    (outlet) => outlet.flush(),
    (outlet) => outlet.write(text("hi")),
    (outlet) => outlet.end([]),
    (outlet) => outlet.upgrade([], "websocket"),
  ];
  for (const send of sends) {
    const { outlet, connection } = open();
    outlet.begin(200, [], 2);
    connection.close();
    const lost = await assertRejects(() => send(outlet), ClientLost);
    assertEquals([lost.why, outlet.alive, outlet.begun], ["was closed", false, true]);
  }
});
