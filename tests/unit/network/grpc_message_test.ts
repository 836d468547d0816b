/**
 * Rules on fields of gRPC messages, with clients and servers of python3-grpcio whose messages Debian's
 * python3-protobuf writes.
 */
import { assert, assertEquals } from "@std/assert";
import { openTypes } from "../../../lib/network/grpc/mod.ts";
import { echoDescriptors } from "../../helper/descriptors.ts";
import { GRPC_HOST, grpcCalls, GrpcServer } from "../../helper/grpc.ts";
import { ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";

/** The message type of the descriptors, made by Python at run time. */
const MESSAGES = `
import base64
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
pool = descriptor_pool.DescriptorPool()
for file in descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode("${echoDescriptors().toBase64()}")).file:
    pool.Add(file)
Request = message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("test.Request"))
message = lambda **fields: Request(**fields).SerializeToString()
`;

const RULES = `[profiles.rules.prod]
name = "prod"
action = "block"
match = '''
http.request.grpc.service == "test.Echo" && http.request.grpc.message.parent.startsWith("projects/prod")
'''
`;

interface Options extends Pick<TestNetOptions, "rules" | "broker"> {
  port?: number;
  described?: boolean;
}

/** Runs calls of a guest with rules on messages. @returns its lines */
async function calls(
  program: string,
  { rules = RULES, port = 443, described = true, broker }: Options = {},
  check: (net: TestNet, server: GrpcServer) => void | Promise<void> = () => {},
): Promise<string[]> {
  let target = { hostname: "", port: 0 };
  const types = await openTypes(echoDescriptors());
  await using net = await TestNet.open({
    target: () => target,
    rules,
    ...(broker && { broker }),
    grpcTypes: () => described ? types : undefined,
  });
  await using server = await GrpcServer.start(net.dir, port === 443 ? await net.leaf(GRPC_HOST) : undefined);
  target = { hostname: "127.0.0.1", port: server.port };
  const lines = await grpcCalls(net, MESSAGES + program, port);
  await net.idle();
  await check(net, server);
  return lines;
}

Deno.test("a rule on a field refuses one call, and the next one on its connection passes", async () => {
  for (const port of [443, 80]) {
    const lines = await calls(
      `print(outcome(lambda: unary("Unary")(message(parent="projects/prod/topics/a"))))
print(unary("Unary")(message(parent="projects/dev/topics/a")) == message(parent="projects/dev/topics/a") + b"!")
stream = channel.unary_stream("/test.Echo/Stream")
print(outcome(lambda: list(stream(message(parent="projects/prod")))))
`,
      { port },
      (net) => {
        const seen = net.gate.entries.map(({ event, decision }) => [
          decision!.rule.id,
          event.http!.request.grpc!.message_type,
        ]);
        assertEquals(seen, [["prod", "test.Request"], ["allow-http", "test.Request"], [
          "prod",
          "test.Request",
        ]]);
        // Neither the record nor its decisions hold the content of messages.
        assert(!JSON.stringify(net.gate.entries).includes("topics/a"));
      },
    );
    assert(lines[0].startsWith("('PERMISSION_DENIED', "), lines[0]);
    assertEquals(lines[1], "True");
    assert(lines[2].startsWith("('PERMISSION_DENIED', "), lines[2]);
  }
});

Deno.test("values of every type are as a rule writes them", async () => {
  const conditions = [
    "m.count == -5",
    "!m.dry_run",
    'm.tags == ["a", "b"]',
    'm.sizes[0] == 1 && m.sizes[1] == "9007199254740993"',
    'm.inner.parent == "x" && m.inner.count == 0',
    'm.labels["k"] == "v"',
    'm.state == "ACTIVE"',
    'm.data == "AAE="',
    'm.user == "u" && !has(m.group)',
    "m.rate == 1.5",
  ].map((condition) => `(${condition.replaceAll("m.", "http.request.grpc.message.")})`);
  const rules = `[profiles.rules.all]\nname = "all"\naction = "block"\nmatch = '''\n${
    conditions.join(" && ")
  }\n'''\n`;
  const [line] = await calls(
    `print(outcome(lambda: unary("Unary")(message(count=-5, tags=["a", "b"], sizes=[1, 2**53 + 1],
      inner=dict(parent="x"), labels={"k": "v"}, state=1, data=b"\\0\\1", user="u", rate=1.5))))
`,
    { rules },
  );
  assert(line.startsWith("('PERMISSION_DENIED', ") && line.includes("all"), line);
});

Deno.test("a client that sends many messages is decided on by each of them", async () => {
  const lines = await calls(
    `
messages = queue.Queue()
chat = channel.stream_stream("/test.Echo/Chat")(iter(messages.get, None))
for parent in ["projects/dev", "projects/test"]:
    messages.put(message(parent=parent))
    print(next(chat) == message(parent=parent).upper())
messages.put(message(parent="projects/prod"))
print(outcome(lambda: next(chat))[0] != "OK")
messages.put(None)
collect = channel.stream_unary("/test.Echo/Collect")
print(outcome(lambda: collect(iter([message(parent="a"), message(parent="projects/prod")]))))
print(collect(iter([message(parent="a")] * 3)))
print(collect(iter([])))
`,
    {},
    (net) => {
      const rules = net.gate.entries.map(({ decision }) => decision!.rule.id);
      assertEquals(rules, ["prod", "prod", "allow-http", "allow-http"]);
    },
  );
  assertEquals(lines.slice(0, 3), ["True", "True", "True"]);
  // The rule and its words, and nothing of the host.
  assert(lines[3].startsWith("('PERMISSION_DENIED', ") && lines[3].includes("prod"), lines[3]);
  assert(!lines[3].includes("profile.toml"), lines[3]);
  assertEquals(lines.slice(4), ["b'9'", "b'0'"]);
});

Deno.test("a compressed message is read by what it holds", async () => {
  const lines = await calls(`
compressed = lambda parent, kind: outcome(lambda: unary("Unary")(message(parent=parent), compression=kind))
print(compressed("projects/prod" + "x" * 1000, grpc.Compression.Gzip)[0])
print(compressed("projects/dev" + "x" * 1000, grpc.Compression.Gzip)[-1:])
print(compressed("projects/dev" + "x" * 1000, grpc.Compression.Deflate))
`);
  assertEquals(lines[0], "PERMISSION_DENIED");
  assertEquals(lines[1], "b'!'");
  assert(lines[2].includes("guard-grpc") || lines[2].includes("its compression is not gzip"), lines[2]);
});

Deno.test("a call whose message cannot be read is refused, and a service without descriptors is not read", async () => {
  const lines = await calls(`
for raw in [b"\\xff", b"\\x78\\x01", message(parent="a" * 1100000), message(parent="a") * 2]:
    print(outcome(lambda: unary("Unary")(raw)))
print(outcome(lambda: unary("Fail")(b"")))
print(outcome(lambda: channel.unary_unary("/test.Other/Unary")(b"\\xff"))[0])
print(unary("Unary")(message(parent="fine"))[-1:])
`);
  const reasons = ["ends too early", "no field 15", "too long", "there twice", "no method Fail"];
  for (const [at, reason] of reasons.entries()) {
    assert(lines[at].startsWith("('PERMISSION_DENIED', ") && lines[at].includes(reason), lines[at]);
  }
  assertEquals(lines.slice(5), ["UNIMPLEMENTED", "b'!'"]);
});

Deno.test("without descriptors a rule on messages refuses calls, and without such a rule none is read", async () => {
  const program = `print(outcome(lambda: unary("Unary")(b"\\xff")))\n`;
  const [refused] = await calls(program, { described: false });
  assert(refused.includes("the profile has no descriptors"), refused);
  assertEquals(await calls(program, { rules: "" }), ["b'\\xff!'"]);
});

Deno.test(
  "a secret in a message that was read is taken out within its length, and rules see its ref",
  world([{ provider: "github", secret: KEY.github }], async ({ open }) => {
    const seen: unknown[] = [];
    const lines = await calls(
      `request = message(parent="${KEY.github}")
reply = unary("Unary")(request)
print(len(reply) - len(request), b"${KEY.github}" in reply)
print(unary("Unary")(message(parent="next"))[-1:])
`,
      { broker: await open(ALL) },
      (net) => {
        seen.push(JSON.stringify(net.gate.entries).includes(KEY.github));
      },
    );
    assertEquals([lines, seen], [["1 False", "b'!'"], [false]]);
  }),
);
