/** Connections to upstreams over HTTP/1.1: who shares them, what is sent on them, and what is sent again. */
import { assertEquals, assertRejects } from "@std/assert";
import { DeadlineWatch } from "../../../lib/network/connection.ts";
import { ConnectionLost, MessageFault } from "../../../lib/network/fault.ts";
import { HEAD_MAX, IDLE_PER_UPSTREAM_MAX, INTERIM_MAX, TIMEOUTS } from "../../../lib/network/limit.ts";
import { type BodySource, RestOfBody, WholeBody } from "../../../lib/network/message/body.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { Flight, Pool } from "../../../lib/network/upstream/pool.ts";
import type { OutgoingRequest, PinnedDestination } from "../../../lib/network/upstream/upstream.ts";
import { type RawClient, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const text = (value: string) => new TextEncoder().encode(value);

/** A pool, and an upstream that serves each of its connections with `serve`. */
class TestPool implements Disposable {
  readonly pool = new Pool(new DeadlineWatch(5), { ...TIMEOUTS, body: 1000, response: 1000 }, []);
  readonly #upstream;

  constructor(serve: (client: RawClient, connection: number) => Promise<unknown>) {
    let count = 0;
    this.#upstream = rawUpstream(async (client) => void await serve(client, ++count));
  }

  /** Accepted connections so far. */
  get count(): number {
    return this.#upstream.conns.length;
  }

  /** Sends a request. */
  send(request: Partial<OutgoingRequest> = {}, to: Partial<PinnedDestination> = {}, flight = new Flight()) {
    const { target } = this.#upstream;
    return this.pool.send({ scheme: "http", host: "a.example", port: 80, dial: target, ...to }, {
      method: "GET",
      authority: "a.example",
      target: "/",
      headers: [],
      body: new WholeBody(new Uint8Array()),
      trailers: false,
      ...request,
    }, flight);
  }

  /** Sends a request and reads its response. @returns its text */
  async ask(...args: Parameters<TestPool["send"]>): Promise<string> {
    const { response: { body }, exchange } = await this.send(...args);
    let answer = "";
    for (let piece = await body.read(); piece !== null; piece = await body.read()) {
      answer += new TextDecoder().decode(piece);
    }
    exchange.done();
    return answer;
  }

  [Symbol.dispose](): void {
    this.pool.close();
    this.#upstream.close();
  }
}

/** Answers every request in the same way. */
async function answerAll(client: RawClient, answer = OK): Promise<void> {
  while (true) {
    await client.until("\r\n\r\n");
    await client.send(answer);
  }
}

Deno.test("a connection serves one request after another to the same host at the same address only", async () => {
  using test = new TestPool((client) => answerAll(client));
  for (let at = 0; at < 3; at++) assertEquals(await test.ask(), "ok");
  assertEquals([test.count, test.pool.size], [1, 1]);
  for (const to of [{ host: "b.example" }, { port: 81 }]) await test.ask({}, to);
  assertEquals([test.count, test.pool.size], [3, 3]);
  const [first, second] = await Promise.all([test.send(), test.send()]);
  assertEquals([test.count, test.pool.size], [4, 4]);
  first.exchange.abort();
  second.exchange.done();
  // The answer of the second was not read: its connection is of no use either.
  await eventually("both are closed", () => test.pool.size === 2);
});

Deno.test("all idle connections to an upstream are used again", async () => {
  using test = new TestPool((client) => answerAll(client));
  for (let round = 0; round < 3; round++) {
    const replies = await Promise.all([test.send(), test.send(), test.send()]);
    for (const { response, exchange } of replies) {
      while (await response.body.read() !== null);
      exchange.done();
    }
  }
  assertEquals([test.count, test.pool.size], [3, 3]);
});

Deno.test("a connection is not used again once either side says so", async () => {
  const cases = [
    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    `${OK}more`,
  ];
  for (const answer of cases) {
    using test = new TestPool((client) => answerAll(client, answer));
    assertEquals([await test.ask(), await test.ask()], ["ok", "ok"]);
    assertEquals(test.count, 2);
    await eventually("they are closed", () => test.pool.size === 0);
  }
});

Deno.test("an idle connection that ends or says something unasked is dropped", async () => {
  for (const unasked of ["", "HTTP/1.1 200 OK\r\n"]) {
    using test = new TestPool(async (client, connection) => {
      await client.until("\r\n\r\n");
      await client.send(OK);
      if (connection === 1) return await client.send(unasked);
      await client.rest();
    });
    await test.ask();
    await eventually("it is dropped", () => test.pool.size === 0);
    assertEquals([await test.ask(), test.count], ["ok", 2]);
  }
});

Deno.test("as many connections to one upstream stay idle as may", async () => {
  const all = Promise.withResolvers<void>();
  let waiting = 0;
  using test = new TestPool(async (client) => {
    await client.until("\r\n\r\n");
    if (++waiting > IDLE_PER_UPSTREAM_MAX) all.resolve();
    await all.promise;
    await client.send(OK);
    await client.rest();
  });
  const replies = await Promise.all(Array.from({ length: IDLE_PER_UPSTREAM_MAX + 1 }, () => test.send()));
  assertEquals(test.pool.size, IDLE_PER_UPSTREAM_MAX + 1);
  for (const { response, exchange } of replies) {
    while (await response.body.read() !== null);
    exchange.done();
  }
  assertEquals(test.pool.size, IDLE_PER_UPSTREAM_MAX);
});

Deno.test("a request goes out again when an idle connection was closed, if that does no harm", async () => {
  const streamed = () => new RestOfBody(text("a"), new WholeBody(text("b")));
  const cases: [name: string, request: Partial<OutgoingRequest>, answer: string, isSentAgain: boolean][] = [
    ...["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].map((method) =>
      [method, { method }, "", true] as [string, object, string, boolean]
    ),
    ["POST", { method: "POST" }, "", false],
    ["PATCH", { method: "PATCH" }, "", false],
    ["a body in memory", { method: "PUT", body: new WholeBody(text("body")) }, "", true],
    ["a body that streams", { method: "PUT", body: streamed() }, "", false],
    ["an answer that began", {}, "HTTP/1.1 2", false],
    ["an interim response", {}, "HTTP/1.1 103 Early\r\n\r\n", false],
    ["an answer that cannot be read", {}, "SSH-2.0\r\n\r\n", false],
  ];
  for (const [name, request, answer, isSentAgain] of cases) {
    const bodies: string[] = [];
    using test = new TestPool(async (client, connection) => {
      await client.until("\r\n\r\n");
      if (connection > 1 && request.body) bodies.push(await client.take(4));
      await client.send(OK);
      await client.until("\r\n\r\n");
      await client.send(answer);
    });
    await test.ask();
    const sent = await test.send(request).then(() => true, (error) => {
      assertEquals(error instanceof ConnectionLost || error instanceof MessageFault, true, `${error}`);
      return false;
    });
    assertEquals([sent, test.count], [isSentAgain, isSentAgain ? 2 : 1], name);
    if (isSentAgain && request.body) assertEquals(bodies, ["body"]);
  }
});

Deno.test("a request on a new connection is not sent again, nor one that was given up", async () => {
  using test = new TestPool(async (client, connection) => {
    await client.until("\r\n\r\n");
    if (connection > 1) await client.send(OK);
    if (connection > 1) await client.until("\r\n\r\n");
  });
  const lost = await assertRejects(() => test.send(), ConnectionLost);
  assertEquals([lost.why, test.count], ["closed the connection without a response", 1]);
  await test.ask();
  const flight = new Flight();
  const sending = assertRejects(() => test.send({}, {}, flight), ConnectionLost);
  flight.abort();
  await sending;
  assertEquals(test.count, 2);
  await assertRejects(() => test.send({}, {}, flight), ConnectionLost);
});

Deno.test("interim responses and heads of responses have limits, which are themselves allowed", async () => {
  const interim = "HTTP/1.1 100 Continue\r\n\r\n";
  const headOf = (length: number) => {
    const head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: \r\n\r\n";
    return head.replace("x: ", `x: ${"y".repeat(length - head.length)}`) + "ok";
  };
  const cases: [answer: string, reason?: string][] = [
    [interim.repeat(INTERIM_MAX) + OK],
    [interim.repeat(INTERIM_MAX + 1) + OK, "too many interim responses"],
    [headOf(HEAD_MAX)],
    [headOf(HEAD_MAX + 1), "head is too long"],
    ["x".repeat(HEAD_MAX + 1), "head is too long"],
  ];
  for (const [answer, reason] of cases) {
    using test = new TestPool((client) => answerAll(client, answer));
    if (reason === undefined) assertEquals(await test.ask(), "ok");
    else await assertRejects(() => test.ask(), MessageFault, reason);
  }
});

/** A body of unknown length in one piece. */
function chunked(piece: string, trailers: Header[] = []): BodySource {
  const rest = [text(piece), null];
  return { trailers, done: false, ready: true, read: () => Promise.resolve(rest.shift() ?? null) };
}

Deno.test("a request on the wire", async () => {
  const host = "/ HTTP/1.1\r\nhost: a.example\r\n";
  const cases: [request: Partial<OutgoingRequest>, wire: string][] = [
    [{}, `GET ${host}\r\n`],
    [{ method: "POST", headers: [["x", "1"]] }, `POST ${host}x: 1\r\ncontent-length: 0\r\n\r\n`],
    [{ method: "PUT" }, `PUT ${host}content-length: 0\r\n\r\n`],
    [{ method: "DELETE" }, `DELETE ${host}\r\n`],
    [{ body: new WholeBody(text("hi")) }, `GET ${host}content-length: 2\r\n\r\nhi`],
    [{ trailers: true }, `GET ${host}connection: te\r\nte: trailers\r\n\r\n`],
    [{ upgrade: "websocket" }, `GET ${host}connection: upgrade\r\nupgrade: websocket\r\n\r\n`],
    [
      { method: "POST", body: new WholeBody(text("hi"), [["x-sum", "1"], ["host", "b"]]) },
      `POST ${host}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n`,
    ],
    [
      { method: "POST", body: new WholeBody(text(""), [["x-sum", "1"]]) },
      `POST ${host}transfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n`,
    ],
    [
      { method: "POST", body: chunked("0123456789abcdef", [["x-sum", "1"], ["host", "b"]]) },
      `POST ${host}transfer-encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n0\r\nx-sum: 1\r\n\r\n`,
    ],
    [
      { method: "POST", body: { ...chunked("hi"), length: 2 } },
      `POST ${host}content-length: 2\r\n\r\nhi`,
    ],
  ];
  for (const [request, wire] of cases) {
    let seen = "";
    using test = new TestPool(async (client) => {
      seen = await client.take(wire.length);
      await client.send(OK);
      await client.rest();
    });
    assertEquals(await test.ask(request), "ok");
    assertEquals(seen, wire);
  }
});

Deno.test("after the host slept no idle connection is used again, and a request under way keeps its own", async () => {
  using test = new TestPool((client) => answerAll(client));
  await test.ask();
  test.pool.renew();
  const { response: { body }, exchange } = await test.send();
  assertEquals(test.count, 2);
  await eventually("the idle one is closed", () => test.pool.size === 1);
  test.pool.renew();
  while (await body.read() !== null);
  exchange.done();
  await test.ask();
  assertEquals([test.count, test.pool.size], [2, 1]);
});

Deno.test("a closed pool has no connection, and opens none", async () => {
  using test = new TestPool((client) => answerAll(client));
  const first = await test.send();
  await test.ask();
  test.pool.close();
  assertEquals(test.pool.size, 0);
  await assertRejects(() => first.response.body.read().then(() => test.ask()), ConnectionLost);
  assertEquals(test.pool.size, 0);
});
