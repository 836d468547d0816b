/** The gateway's handler with a service behind it: codes of closed WebSockets, headers, health. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  corsHeaders,
  DesktopGate,
  DesktopPage,
  gatewayHandler,
  GatewayRun,
  lockGateway,
  methodMatcher,
  preflight,
  removeGatewayFiles,
  requireLocalHost,
  ROUTES,
  Sessions,
  TokenGate,
  Upstream,
  writeGatewayFiles,
} from "../../../../lib/client/gateway/mod.ts";
import { addResponseHeaders, filterRequestHeaders } from "../../../../lib/client/gateway/handler.ts";
import { home } from "../../../../lib/base/home/mod.ts";

/** A gateway in this process, in front of a service that handles requests with `serve`. */
class TestGateway implements AsyncDisposable {
  private constructor(
    readonly dir: string,
    readonly service: Deno.HttpServer,
    readonly server: Deno.HttpServer<Deno.NetAddr>,
    readonly client: Deno.HttpClient,
    readonly upstream: Upstream,
  ) {}

  static async start(serve: (request: Request) => Response): Promise<TestGateway> {
    const dir = await Deno.makeTempDir();
    const path = `${dir}/s`;
    const service = Deno.serve({ path, onListen() {} }, serve);
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
    const upstream = new Upstream(path);
    const handler = gatewayHandler({
      gate: new TokenGate("right"),
      desktop: new DesktopGate(await GatewayRun.make(), new Sessions(), new DesktopPage(dir)),
      methodsOf: methodMatcher(ROUTES),
      upstream,
      socketClient: client,
      version: "1.2.3",
      log: { error() {}, debug() {} },
    });
    const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
    return new TestGateway(dir, service, server, client, upstream);
  }

  /** A client's socket at the gateway. */
  socket(): WebSocket {
    return new WebSocket(`ws://127.0.0.1:${this.server.addr.port}/events?token=right`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.shutdown();
    this.upstream.close();
    await this.service.shutdown();
    this.client.close();
    await Deno.remove(this.dir, { recursive: true });
  }
}

const closed = (socket: WebSocket) =>
  new Promise<[number, string]>((resolve) => socket.onclose = ({ code, reason }) => resolve([code, reason]));

Deno.test("sockets: the client gets the code with which the service closed, where a server may send it", async () => {
  let code: number | undefined;
  await using gateway = await TestGateway.start((request) => {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onopen = () => socket.send("x");
    socket.onmessage = () => code === undefined ? socket.close() : socket.close(code, "why");
    return response;
  });
  for (
    const [sent, got] of [
      [1000, [1000, "why"]],
      [1001, [1001, "why"]],
      [1011, [1011, "why"]],
      [1012, [1012, "why"]],
      [3000, [3000, "why"]],
      [4999, [4999, "why"]],
      [undefined, [1000, ""]],
    ] as const
  ) {
    code = sent;
    const socket = gateway.socket();
    const end = closed(socket);
    socket.onmessage = () => socket.send("end");
    assertEquals<unknown>(await end, got, String(sent));
  }
});

Deno.test("sockets: the service gets the code with which the client closed", async () => {
  const codes: number[] = [];
  let gone = Promise.withResolvers<void>();
  await using gateway = await TestGateway.start((request) => {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onclose = ({ code }) => {
      codes.push(code);
      gone.resolve();
    };
    return response;
  });
  for (const code of [1000, 3000, 4999, undefined]) {
    gone = Promise.withResolvers();
    const socket = gateway.socket();
    const end = closed(socket);
    socket.onopen = () => code === undefined ? socket.close() : socket.close(code);
    await gone.promise;
    await end;
  }
  assertEquals(codes, [1000, 3000, 4999, 1000]);
});

Deno.test("sockets: a refusal of the service comes with its status, type and text", async () => {
  await using gateway = await TestGateway.start(() =>
    new Response("no such terminal", { status: 404, headers: { "content-type": "text/x-own" } })
  );
  using connection = await Deno.connect({ port: gateway.server.addr.port });
  await connection.write(
    new TextEncoder().encode(
      "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nConnection: Upgrade\r\n" +
        "Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ),
  );
  const buffer = new Uint8Array(4096);
  let text = "";
  while (!text.includes("no such terminal")) {
    const read = await connection.read(buffer);
    if (read === null) break;
    text += new TextDecoder().decode(buffer.subarray(0, read));
  }
  assertEquals(text.split(" ")[1], "404");
  assertEquals(/content-type: (\S+)/i.exec(text)?.[1], "text/x-own");
});

Deno.test("health: needs no token and says whether the service answers", async () => {
  const gateway = await TestGateway.start(() => new Response("y".repeat(100_000)));
  const ask = async () => (await fetch(`http://127.0.0.1:${gateway.server.addr.port}/health`)).json();
  assertEquals(await ask(), { ok: true, version: "1.2.3", service: true });
  await gateway.service.shutdown();
  await Deno.remove(`${gateway.dir}/s`).catch(() => {});
  assertEquals(await ask(), { ok: true, version: "1.2.3", service: false });
  await gateway[Symbol.asyncDispose]();
});

Deno.test("headers: those of one connection, and those it names, go neither way", () => {
  assertEquals(
    filterRequestHeaders(
      new Headers({
        connection: "X-Mine, close",
        "x-mine": "1",
        "x-other": "2",
        cookie: "a=b",
        te: "trailers",
      }),
    ),
    [["x-other", "2"]],
  );
  const answer = new Headers();
  addResponseHeaders(answer, [["connection", "x-mine"], ["x-mine", "1"], ["x-other", "2"], ["x-other", "3"], [
    "set-cookie",
    "a=b",
  ]]);
  assertEquals([...answer], [["x-content-type-options", "nosniff"], ["x-other", "2, 3"]]);
  const plain = new Headers();
  addResponseHeaders(plain, [["x-mine", "1"], ["null", "2"]]);
  assertEquals([...plain], [["null", "2"], ["x-content-type-options", "nosniff"], ["x-mine", "1"]]);
});

Deno.test("origin: Host and target both name this machine, and pages of other sites get no headers", () => {
  requireLocalHost("localhost:1", "127.0.0.1:1");
  for (
    const [host, authority] of [[null, "localhost"], ["localhost", "evil.example"], [
      "evil.example",
      "localhost",
    ]]
  ) {
    assertThrows(() => requireLocalHost(host, authority!), SbxError, "Host");
  }
  assertEquals(corsHeaders(null), []);
  assertEquals(corsHeaders("http://evil.example"), [["vary", "Origin"]]);
  const { status, headers } = preflight("http://localhost:5173");
  assertEquals([status, headers.get("access-control-allow-origin")], [204, "http://localhost:5173"]);
  assertEquals(headers.get("access-control-max-age"), "600");
});

Deno.test("files: the run directory is its owner's, and removing its files twice is no error", async () => {
  const dir = await Deno.makeTempDir();
  const place = { ...home(), runDir: `${dir}/run` };
  for (const name of ["gatewayPidFile", "gatewayPortFile", "gatewayTokenFile"] as const) {
    Object.defineProperty(place, name, { value: `${dir}/run/${name}` });
  }
  const lock = await lockGateway(place);
  assertEquals((await Deno.stat(place.runDir)).mode! & 0o777, 0o700);
  assertEquals((await Deno.stat(`${place.runDir}/gateway.lock`)).mode! & 0o777, 0o600);
  assertEquals(
    await lockGateway(place).then(() => "locked twice", ({ code }) => code),
    "gateway.already_running",
  );
  lock.close();
  await writeGatewayFiles(place, "secret", 4711);
  assertEquals(await Deno.readTextFile(place.gatewayTokenFile), "secret");
  assertEquals(await Deno.readTextFile(place.gatewayPortFile), "4711\n");
  assertEquals(await Deno.readTextFile(place.gatewayPidFile), `${Deno.pid}\n`);
  removeGatewayFiles(place);
  removeGatewayFiles(place);
  assertEquals((await Array.fromAsync(Deno.readDir(place.runDir))).map(({ name }) => name), ["gateway.lock"]);
  // What is in the way of the files is not hidden.
  await Deno.mkdir(`${place.gatewayPidFile}/folder`, { recursive: true });
  assertThrows(() => removeGatewayFiles(place));
  await Deno.remove(dir, { recursive: true });
});
