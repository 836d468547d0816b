/**
 * gRPC of guests, with clients and servers of python3-grpcio: every kind of call, what
 * its event says, and rules on it.
 */
import { assert, assertEquals } from "@std/assert";
import type { HttpEvent } from "../../../lib/event/mod.ts";
import { GrpcCounts, grpcOf, GrpcReader } from "../../../lib/network/exchange/grpc.ts";
import { GRPC_HOST, grpcCalls, GrpcServer } from "../../helper/grpc.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";

/** A guest, and a server of gRPC. @param isSecure by TLS */
async function withServer(
  run: (net: TestNet, server: GrpcServer) => Promise<void>,
  isSecure = true,
  options: TestNetOptions = {},
): Promise<void> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target, ...options });
  await using server = await GrpcServer.start(net.dir, isSecure ? await net.leaf(GRPC_HOST) : undefined);
  target = { hostname: "127.0.0.1", port: server.port };
  await run(net, server);
}

/** Every kind of call; one that waits for an answer before each of its messages among them. */
const CALLS = `
reply, call = unary("Unary").with_call(b"hello", timeout=20)
print(reply, dict(call.trailing_metadata())["x-trailer"])
print(outcome(lambda: unary("Fail")(b"")))
print([m for m in channel.unary_stream("/test.Echo/Stream")(b"300")][-1])
print(channel.stream_unary("/test.Echo/Collect")(iter([b"x" * 100000] * 20)))
messages = queue.Queue()
chat = channel.stream_stream("/test.Echo/Chat")(iter(messages.get, None))
print(dict(chat.initial_metadata())["x-first"])
for text in [b"what", b"hello s", b"credential"]:
    messages.put(text)
    print(next(chat))
messages.put(None)
print(list(chat))
`;

const ANSWERS = [
  "b'hello!' t",
  "('NOT_FOUND', 'no such thing')",
  "b'm299'",
  "b'2000000'",
  "1",
  "b'WHAT'",
  "b'HELLO S'",
  "b'CREDENTIAL'",
  "[]",
];

Deno.test("every kind of call works, with and without TLS, and its event says what it was", async (t) => {
  for (const port of [443, 80]) {
    await t.step(`port ${port}`, () =>
      withServer(async (net) => {
        assertEquals(await grpcCalls(net, CALLS, port), ANSWERS);
        await net.idle();
        const seen = net.gate.entries.map(({ event, outcome }) => {
          const { grpc } = event.http!.request;
          const { requests, request_bytes, responses, response_bytes, status } =
            (outcome!.response as HttpEvent["response"])!.grpc!;
          return [grpc?.service, grpc?.method, requests, request_bytes, responses, response_bytes, status];
        });
        assertEquals(seen, [
          ["test.Echo", "Unary", 1, 5, 1, 6, 0],
          ["test.Echo", "Fail", 1, 0, 0, 0, 5],
          ["test.Echo", "Stream", 1, 3, 300, 1090, 0],
          ["test.Echo", "Collect", 20, 2_000_000, 1, 7, 0],
          ["test.Echo", "Chat", 3, 21, 3, 21, 0],
        ]);
        assert(net.gate.entries[0].event.http!.request.grpc!.timeout_ms! <= 20_000);
      }, port === 443));
  }
});

const RULES = `[profiles.rules.no-fail]
name = "no fail"
action = "block"
match = 'http.request.grpc.service == "test.Echo" && http.request.grpc.method == "Fail"'

[profiles.rules.words]
name = "words"
action = "block"
match = 'http.request.body.text.contains("forbidden")'
`;

Deno.test("a rule on a call refuses it with a status that its client reads", async () => {
  await withServer(
    async (net) => {
      const lines = await grpcCalls(
        net,
        `print(outcome(lambda: unary("Fail")(b"")))
print(outcome(lambda: unary("Unary")(b"forbidden")))
print(unary("Unary")(b"fine"))
messages = queue.Queue()
chat = channel.stream_stream("/test.Echo/Chat")(iter(messages.get, None))
messages.put(b"first")
print(next(chat))
messages.put(None)
print(list(chat))
`,
      );
      assert(lines[0].startsWith("('PERMISSION_DENIED', "), lines[0]);
      assert(lines[0].includes("no-fail"), lines[0]);
      assert(lines[1].startsWith("('PERMISSION_DENIED', "), lines[1]);
      assertEquals(lines.slice(2), ["b'fine!'", "b'FIRST'", "[]"]);
      const rules = net.gate.entries.map(({ decision }) => decision?.rule.id);
      assertEquals(rules.slice(0, 2), ["no-fail", "words"]);
    },
    true,
    { rules: RULES },
  );
});

Deno.test("a server takes no call that rules do not know as one", () =>
  withServer(async (net) => {
    // gRPC's C library reads no content type, and requires this header of every call.
    const headers = ["--http2", "-H", "te: trailers", "-H", "content-type: text/plain"];
    await Deno.writeFile(`${net.dir}/empty`, new Uint8Array(5));
    const body = ["--data-binary", `@${net.dir}/empty`];
    const { stdout } = await net.curl(`https://${GRPC_HOST}/test.Echo/Unary`, ...headers, ...body);
    assert(stdout.includes("Missing :te header"), stdout);
  }));

Deno.test("a deadline and a cancellation reach the server", async () => {
  await withServer(async (net, server) => {
    assertEquals(
      await grpcCalls(net, 'print(outcome(lambda: unary("Slow")(b"", timeout=1))[0])'),
      ["DEADLINE_EXCEEDED"],
    );
    await server.says("gone");
  });
});

Deno.test("an upstream that cannot be reached is UNAVAILABLE", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  await using net = await TestNet.open({ target: () => ({ hostname: "127.0.0.1", port }) });
  const [line] = await grpcCalls(net, 'print(outcome(lambda: unary("Unary")(b"")))');
  assert(line.startsWith("('UNAVAILABLE', "), line);
  assert(line.includes("refused the connection"), line);
});

Deno.test("what is a call of gRPC, by content type and path", () => {
  const of = (type: string, target = "/a.B/C", method = "POST") =>
    grpcOf({ method, target, headers: [["content-type", type], ["grpc-timeout", "150m"]] });
  const call = { method: "C", service: "a.B", timeout_ms: 150 };
  for (const type of ["application/grpc", "application/grpc+proto", "Application/GRPC;x=y"]) {
    assertEquals(of(type), call);
  }
  for (const type of ["application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"]) {
    assertEquals(of(type), { ...call, web: true });
  }
  assertEquals(of("application/grpc", "/prefix/a.B/C?x=y"), call);
  for (
    const type of ["application/grpcs", "application/grpc-webs", "application/json", "text/application/grpc"]
  ) {
    assertEquals(of(type), undefined);
  }
  assertEquals([of("application/grpc", "/C"), of("application/grpc", "/a.B/C", "GET")], [
    undefined,
    undefined,
  ]);
});

Deno.test("messages are counted in whatever pieces they arrive, and trailers of gRPC-Web have the status", () => {
  const body = new Uint8Array([0, 0, 0, 0, 3, 97, 98, 99, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 100].concat(
    [0x80, 0, 0, 0, 16],
    [...new TextEncoder().encode("grpc-status: 7\r\n")],
  ));
  for (let size = 1; size <= body.length; size++) {
    const counts = new GrpcCounts();
    for (let at = 0; at < body.length; at += size) counts.responses.read(body.subarray(at, at + size));
    assertEquals(counts.result([]), {
      request_bytes: 0,
      requests: 0,
      response_bytes: 4,
      responses: 3,
      status: 7,
    });
  }
  assertEquals(new GrpcReader().read(body), [8, 13, 19, 40]);
});
