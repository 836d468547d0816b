/**
 * A guest that sends a message of gRPC which a rule on its fields would refuse, so that the rule does
 * not see it.
 */
import { assert, assertEquals } from "@std/assert";
import { gzipSync } from "node:zlib";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { openTypes } from "../../../lib/network/grpc/mod.ts";
import { echoDescriptors } from "../../helper/descriptors.ts";
import { h2Fields, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const RULES = `[profiles.rules.prod]
name = "prod"
action = "block"
match = 'http.request.grpc.message.parent == "prod"'
`;

const text = (value: string) => new TextEncoder().encode(value);
const join = (...parts: (Uint8Array | number[])[]) => new Uint8Array(parts.flatMap((part) => [...part]));
/** `parent` of the request. */
const parent = (value: string) => join([0x0a, value.length], text(value));
const frame = (message: Uint8Array, flag = 0) =>
  join([flag, 0, 0, message.length >> 8, message.length & 255], message);

const PROD = parent("prod");
const zipped = new Uint8Array(gzipSync(PROD));
const named = new Uint8Array(zipped);
named[3] = 8;

interface Attack {
  fields?: [string, string][];
  path?: string;
  body: Uint8Array<ArrayBuffer>;
  /** the guest leaves its stream open */
  open?: true;
}

const ATTACKS: Record<string, Attack> = {
  "a second message behind a harmless one": { body: join(frame(parent("dev")), frame(PROD)) },
  "bytes behind the message": { body: join(frame(parent("dev")), [0]) },
  "a second message in an open stream": { body: join(frame(parent("dev")), frame(PROD)), open: true },
  "an open stream": { body: frame(PROD), open: true },
  "no message": { body: new Uint8Array() },
  "half of a message": { body: frame(PROD).slice(0, -1) },
  "a field twice, of which a server takes the last": { body: frame(join(parent("dev"), PROD)) },
  "a field of another wire type, which a server skips": { body: frame(join([0x08, 1], PROD)) },
  "an unknown field in front": { body: frame(join([0x78, 1], PROD)) },
  "another codec": { fields: [["content-type", "application/grpc+json"]], body: frame(PROD) },
  "base64": {
    fields: [["content-type", "application/grpc-web-text"]],
    body: join(text(btoa("\0\0\0\0\x06\x0a\x04prod"))),
  },
  "two content types": {
    fields: [["content-type", "application/grpc"], ["content-type", "application/grpc+json"]],
    body: frame(PROD),
  },
  "an encoding of the body": {
    fields: [["content-type", "application/grpc"], ["content-encoding", "gzip"]],
    body: join(gzipSync(frame(PROD))),
  },
  "a compression that is not named": { body: frame(zipped, 1) },
  "two compressions": {
    fields: [["content-type", "application/grpc"], ["grpc-encoding", "gzip"], ["grpc-encoding", "deflate"]],
    body: frame(zipped, 1),
  },
  "a second gzip behind a harmless one": {
    fields: [["content-type", "application/grpc"], ["grpc-encoding", "gzip"]],
    body: frame(join(gzipSync(parent("dev")), zipped), 1),
  },
  "a gzip with options": {
    fields: [["content-type", "application/grpc"], ["grpc-encoding", "gzip"]],
    body: frame(named, 1),
  },
  "a gzip of more than the limit": {
    fields: [["content-type", "application/grpc"], ["grpc-encoding", "gzip"]],
    body: frame(join(gzipSync(join(PROD, new Uint8Array(2 * 1024 * 1024)))), 1),
  },
  "flags that no one knows": { body: frame(PROD, 4) },
  "a method that the descriptors do not have": { path: "/test.Echo/unary", body: frame(PROD) },
  "a prefix of the path": { path: "/api/test.Echo/Unary", body: frame(PROD) },
};

Deno.test("a message that a rule on its fields would refuse reaches no server, however it is hidden", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: RULES,
    grpcTypes: () => types,
  });
  for (const [name, { fields, path = "/test.Echo/Unary", body, open }] of Object.entries(ATTACKS)) {
    const before = net.gate.entries.length;
    await using client = await RawHttp2.open(net);
    const head = h2Fields({ ":method": "POST", ":path": path });
    await client.send(
      h2Request(1, [...head, ...fields ?? [["content-type", "application/grpc"]]], h2.END_HEADERS),
      h2.frame(h2.DATA, open ? 0 : h2.END_STREAM, 1, body),
    );
    if (!open) {
      const end = await client.end();
      assertEquals(end.fields?.find(([field]) => field === "grpc-status")?.[1], "7", name);
      const rule = net.gate.entries.at(-1)?.decision?.rule.id;
      assert(rule === "guard-grpc" || rule === "prod", `${name}: ${rule}`);
    }
    client.conn.close();
    await net.idle();
    assertEquals(upstream.requests, [], name);
    if (open) assertEquals(net.gate.entries.length, before, name);
  }
  upstream.close();
});

Deno.test("the messages of HTTP/1.1, of gRPC-Web and behind an announcement are read too", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: RULES,
    grpcTypes: () => types,
  });
  const file = `${net.dir}/message`;
  await Deno.writeFile(file, frame(PROD));
  for (const type of ["application/grpc-web+proto", "application/grpc"]) {
    const headers = ["-H", `content-type: ${type}`, "-H", "expect: 100-continue", "--http1.1"];
    await net.curl("http://api.example.com/test.Echo/Unary", ...headers, "--data-binary", `@${file}`);
    assertEquals([net.gate.entries.at(-1)?.decision?.rule.id, upstream.requests], ["prod", []], type);
  }
  upstream.close();
});

Deno.test("a later message of a client that sends many reaches no server, also in a body that is whole", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: RULES,
    grpcTypes: () => types,
  });
  for (const later of [frame(PROD), frame(join([0xff])), frame(PROD, 1)]) {
    const file = `${net.dir}/messages`;
    await Deno.writeFile(file, join(frame(parent("dev")), later));
    const headers = ["-H", "content-type: application/grpc", "-H", "expect:", "--http1.1"];
    await net.curl("http://api.example.com/test.Echo/Collect", ...headers, "--data-binary", `@${file}`);
    const rule = net.gate.entries.at(-1)?.decision?.rule.id;
    assert(rule === "guard-grpc" || rule === "prod", rule);
    assertEquals(upstream.requests, []);
  }
  upstream.close();
});

Deno.test("a call that does not look like one reaches no server of a described service", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: RULES,
    grpcTypes: () => types,
  });
  const file = `${net.dir}/message`;
  await Deno.writeFile(file, frame(PROD));
  const call = async (method: string, path: string, type: string) => {
    const headers = ["-H", `content-type: ${type}`, "-H", "te: trailers", "--path-as-is", "-X", method];
    await net.curl(`http://api.example.com${path}`, ...headers, "--data-binary", `@${file}`);
    return net.gate.entries.at(-1)?.decision?.rule.id;
  };
  const grpc = "application/grpc", path = "/test.Echo/Unary";
  const disguised = [
    // Servers of gRPC's C library read no content type.
    ...["text/plain", "application/grpcx", "application/proto", ""].map((type) => ["POST", path, type]),
    ...["PUT", "GET"].map((method) => [method, path, grpc]),
    // Others match paths as websites do.
    ...["/TEST.echo/Unary", `${path}/`, "/test.Echo;a/Unary", "/api/test.Echo%2FUnary"].map((
      path,
    ) => ["POST", path, grpc]),
  ];
  for (const [method, path, type] of disguised) {
    assertEquals(await call(method, path, type), "guard-grpc", `${method} ${path} ${type}`);
  }
  assertEquals(upstream.requests, []);
  // A question before a call of a browser, and paths of nothing that is described.
  assertEquals(await call("OPTIONS", path, ""), "allow-http");
  assertEquals(await call("POST", "/test.Echo", "text/plain"), "allow-http");
  assertEquals(await call("POST", "/test.Echo/Unary/more", "text/plain"), "allow-http");
  upstream.close();
});

Deno.test("a later message for which a rule rewrites the call reaches no server without that", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  const rewrite = (id: string, match: string, path: string, value: string) =>
    `[profiles.rules.${id}]\nname = "${id}"\naction = "rewrite"\nmatch = '${match}'\n` +
    `rewrite = [{ op = "set", path = "http.request.${path}", value = "${value}" }]\n`;
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: rewrite("all", 'http.request.method == "POST"', "query", "a=1") +
      rewrite("test", 'http.request.grpc.message.parent == "prod"', "host", "test.example.com"),
    grpcTypes: () => types,
  });
  const file = `${net.dir}/messages`;
  const collect = async (...messages: string[]) => {
    await Deno.writeFile(file, join(...messages.map((each) => frame(parent(each)))));
    const headers = ["-H", "content-type: application/grpc", "-H", "expect:", "--http1.1"];
    await net.curl("http://api.example.com/test.Echo/Collect", ...headers, "--data-binary", `@${file}`);
    return [net.gate.entries.at(-1)?.outcome?.error?.includes("rewrites the call"), upstream.requests.length];
  };
  assertEquals(await collect("prod", "prod"), [undefined, 1]);
  assertEquals(await collect("dev", "dev"), [undefined, 2]);
  assertEquals(await collect("dev", "prod"), [true, 2]);
  upstream.close();
});

Deno.test("a later message that a rule asks about reaches a server only if a person has allowed the call for it", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  const rule = (id: string, action: string, parent: string) =>
    `[${id}]\nname = "same"\naction = "${action}"\nmatch = 'http.request.grpc.message.parent == "${parent}"'\n`;
  await using net = await TestNet.open({
    target: () => upstream.target,
    // Rules of two layers may have one id.
    rules: rule("profiles.rules.same", "allow", "dev") + rule("default.same", "ask", "prod"),
    grpcTypes: () => types,
  });
  const file = `${net.dir}/messages`;
  const collect = async (...messages: string[]) => {
    await Deno.writeFile(file, join(...messages.map((each) => frame(parent(each)))));
    const headers = ["-H", "content-type: application/grpc", "-H", "expect:", "--http1.1"];
    const person = setInterval(() => {
      for (const { ask_id } of net.gate.asks.pending()) {
        net.gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
      }
    }, 10);
    await net.curl("http://api.example.com/test.Echo/Collect", ...headers, "--data-binary", `@${file}`);
    clearInterval(person);
    return upstream.requests.length;
  };
  assertEquals(await collect("dev", "prod"), 0);
  assertEquals(await collect("prod", "prod"), 1);
  upstream.close();
});

Deno.test("messages that are long to read leave turns to the work of other requests", async () => {
  const types = await openTypes(echoDescriptors());
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: RULES,
    grpcTypes: () => types,
  });
  // Each of them inflates to as many texts as a message may have.
  const values = new Uint8Array(gzipSync(new Uint8Array(130_000).map((_, at) => at % 2 === 0 ? 0x22 : 0)));
  const file = `${net.dir}/messages`;
  await Deno.writeFile(file, join(...Array.from({ length: 20 }, () => frame(values, 1))));
  const headers = ["-H", "content-type: application/grpc", "-H", "grpc-encoding: gzip", "--http1.1"];
  // While the messages behind the first one are read: the call is decided on, and not sent.
  let turns = 0;
  const counter = setInterval(() => {
    if (net.gate.entries.length === 1 && upstream.requests.length === 0) turns++;
  }, 1);
  await net.curl("http://api.example.com/test.Echo/Collect", ...headers, "--data-binary", `@${file}`);
  clearInterval(counter);
  assertEquals(upstream.requests.length, 1);
  assert(turns >= 5, `${turns}`);
  upstream.close();
});
