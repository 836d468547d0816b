/** Connections between gateway and service: which are used again, and what is sent on them. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { Upstream } from "../../../../lib/client/gateway/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/** Mark of an answer after which the connection ends. */
const END = "\0";

/**
 * A service whose n-th connection gives the n-th list of answers, one a request; it
 * closes after one more, or `END`.
 */
class Scripted implements AsyncDisposable {
  /** requests as received, by connection */
  readonly seen: string[][] = [];
  /** connections that the gateway closed */
  closedByGateway = 0;
  readonly upstream: Upstream;
  readonly #listener: Deno.UnixListener;
  readonly #serving: Promise<void>;

  constructor(readonly dir: string, answers: string[][]) {
    this.upstream = new Upstream(`${dir}/s`);
    this.#listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
    this.#serving = this.#serve(answers).catch(() => {});
  }

  static async start(...answers: string[][]): Promise<Scripted> {
    return new Scripted(await Deno.makeTempDir(), answers);
  }

  /** Sends a request. @returns status and body */
  async ask(method: string, body?: string): Promise<string> {
    const reply = await this.upstream.send({
      method,
      target: "/x",
      headers: [],
      body: body === undefined ? undefined : new TextEncoder().encode(body),
    });
    return `${reply.status} ${await new Response(reply.body).text()}`;
  }

  async #serve(answers: string[][]): Promise<void> {
    const connections: Promise<void>[] = [];
    for await (const connection of this.#listener) {
      connections.push(this.#answer(connection, answers[this.seen.length] ?? [], this.seen.push([]) - 1));
    }
    await Promise.all(connections);
  }

  async #answer(connection: Deno.UnixConn, answers: string[], index: number): Promise<void> {
    using _ = connection;
    const buffer = new Uint8Array(4096);
    for (const answer of [...answers, null]) {
      const read = await connection.read(buffer).catch(() => null);
      if (read === null) return void this.closedByGateway++;
      this.seen[index].push(new TextDecoder("latin1").decode(buffer.subarray(0, read)));
      if (answer !== null) await connection.write(new TextEncoder().encode(answer.replace(END, "")));
      if (answer?.endsWith(END)) return;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.upstream.close();
    this.#listener.close();
    await this.#serving;
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("upstream: one connection serves one request after another, however each answer ends", async () => {
  await using service = await Scripted.start([
    OK,
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    `HTTP/1.1 200 OK\r\ncontent-length: 70000\r\n\r\n${"y".repeat(70_000)}`,
    OK,
  ]);
  assertEquals(await service.ask("GET"), "200 ok");
  assertEquals(await service.ask("GET"), "200 abcdefghijklmnopqrstuvwxyz");
  assertEquals(await service.ask("HEAD"), "200 ");
  assertEquals(await service.ask("GET"), "304 ");
  assertEquals(await service.ask("POST", "{}"), "204 ");
  assertEquals(await service.ask("GET"), `200 ${"y".repeat(70_000)}`);
  assertEquals(await service.ask("GET"), "200 ok");
  assertEquals(service.seen.map((requests) => requests.length), [7]);
  assertEquals(service.seen[0][4], "POST /x HTTP/1.1\r\nhost: service\r\ncontent-length: 2\r\n\r\n{}");
});

for (
  const [why, answer] of [
    ["connection: close", "HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 2\r\n\r\nok"],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    ["another protocol", "HTTP/1.1 101 Switching Protocols\r\ncontent-length: 0\r\n\r\n"],
    ["bytes behind the answer", `${OK}HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad`],
  ]
) {
  Deno.test(`upstream: ${why} ends the connection, and the next request gets its own answer`, async () => {
    await using service = await Scripted.start([answer, OK], [OK]);
    assertEquals(await service.ask("GET"), answer.includes(" 101 ") ? "101 " : "200 ok");
    assertEquals(await service.ask("GET"), "200 ok");
    assertEquals(service.seen.map((requests) => requests.length), [1, 1]);
    await eventually("the connection is closed", () => service.closedByGateway === 1);
  });
}

Deno.test("upstream: a used connection that ends without an answer: GET goes again, POST is an error", async () => {
  await using service = await Scripted.start([OK], [OK], [OK]);
  await service.ask("GET");
  assertEquals(await service.ask("GET"), "200 ok");
  const error = await assertRejects(() => service.ask("POST", "{}"), SbxError);
  assertEquals(error.code, "service.unreachable");
  assertEquals(service.seen.map((requests) => requests.length), [2, 2]);
});

Deno.test("upstream: a new connection that ends without an answer is an error at once", async () => {
  await using service = await Scripted.start([], [OK]);
  assertEquals((await assertRejects(() => service.ask("GET"), SbxError)).code, "service.unreachable");
  assertEquals(service.seen.map((requests) => requests.length), [1]);
});

Deno.test("upstream: a used connection that breaks inside a head is an error; the request isn't sent again", async () => {
  await using service = await Scripted.start([OK, `HTTP/1.1 20${END}`], [OK]);
  await service.ask("GET");
  assertEquals((await assertRejects(() => service.ask("GET"), SbxError)).code, "service.unreachable");
  assertEquals(service.seen.length, 1);
});

Deno.test("upstream: streams go with their length, or in chunks, and header values byte by byte", async () => {
  async function* chunks() {
    for (const text of ["ab", "", "0123456789abcdefghij"]) {
      yield new TextEncoder().encode(text);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  for (
    const [length, head, body] of [
      [22, "content-length: 22", "ab0123456789abcdefghij"],
      [undefined, "transfer-encoding: chunked", "2\r\nab\r\n14\r\n0123456789abcdefghij\r\n0\r\n\r\n"],
    ] as const
  ) {
    const dir = await Deno.makeTempDir();
    using listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
    const received = (async () => {
      using connection = await listener.accept();
      let text = "";
      const buffer = new Uint8Array(4096);
      while (!text.endsWith(body)) {
        const read = await connection.read(buffer);
        if (read === null) break;
        text += new TextDecoder("latin1").decode(buffer.subarray(0, read));
      }
      await connection.write(new TextEncoder().encode(OK));
      // Nothing follows the body.
      const more = await connection.read(buffer);
      return more === null ? text : text + more;
    })();
    const upstream = new Upstream(`${dir}/s`);
    const headers: [string, string][] = [["x-name", "caf\u00e9"]];
    const reply = await upstream.send({
      method: "POST",
      target: "/x",
      headers,
      body: { length, chunks: chunks() },
    });
    assertEquals(reply.status, 200);
    upstream.close();
    assertEquals(
      await received,
      `POST /x HTTP/1.1\r\nhost: service\r\n${head}\r\nx-name: caf\u00e9\r\n\r\n${body}`,
    );
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("upstream: an error of the request's body is the request's error", async () => {
  await using service = await Scripted.start([OK]);
  // deno-lint-ignore require-yield -- fails before its first chunk
  async function* chunks(): AsyncGenerator<Uint8Array> {
    await service.upstream;
    throw new SbxError("request.too_large", "too large");
  }
  const error = await assertRejects(
    () => service.upstream.send({ method: "POST", target: "/x", headers: [], body: { chunks: chunks() } }),
    SbxError,
  );
  assertEquals(error.code, "request.too_large");
});

Deno.test("upstream: the end of a client closes the connection that waits for its answer, and no other", async () => {
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
  const upstream = new Upstream(`${dir}/s`);
  const client = new AbortController();
  const sent = upstream.send({ method: "GET", target: "/x", headers: [], signal: () => client.signal });
  const failed = assertRejects(() => sent, SbxError);
  using connection = await listener.accept();
  const buffer = new Uint8Array(4096);
  assert(await connection.read(buffer));
  client.abort();
  assertEquals(await connection.read(buffer).catch(() => null), null);
  assertEquals((await failed).code, "service.unreachable");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("upstream: a client that ends after its answer leaves the connection for the next request", async () => {
  await using service = await Scripted.start([OK, OK]);
  const client = new AbortController();
  await service.upstream.send({ method: "GET", target: "/x", headers: [], signal: () => client.signal });
  client.abort();
  assertEquals(await service.ask("GET"), "200 ok");
  assertEquals(service.seen.length, 1);
});

Deno.test("upstream: a reader that stops ends the answer at the service", async () => {
  await using service = await Scripted.start([
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`,
  ]);
  const { body } = await service.upstream.send({ method: "GET", target: "/x", headers: [] });
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  assertEquals(new TextDecoder().decode((await reader.read()).value), "abc");
  await reader.cancel();
  await eventually("the connection is closed", () => service.closedByGateway === 1);
});
