/** HTTP/2 and gRPC of guests with peers that nobody here wrote: grpc-js at both ends, nghttp and curl. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import * as grpc from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import type { HttpEvent } from "../../../lib/event/mod.ts";
import { GRPC_HOST, grpcCalls, GrpcServer } from "../../helper/grpc.ts";
import { TestNet } from "../../helper/net.ts";

const HOST = "www.example.com";
const bytes = { serialize: (value: Buffer) => value, deserialize: (value: Buffer) => value };
const encode = (text: string) => Buffer.from(text);

/** A client of grpc-js as a program of the guest. */
function grpcClient(net: TestNet, port: number): grpc.Client {
  return new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createSsl(encode(net.caCert)), {
    "grpc.ssl_target_name_override": GRPC_HOST,
    "grpc.default_authority": GRPC_HOST,
    "grpc.enable_http_proxy": 0,
  });
}

Deno.test("grpc-js calls a server of python3-grpcio", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  await using server = await GrpcServer.start(net.dir, await net.leaf(GRPC_HOST));
  target = { hostname: "127.0.0.1", port: server.port };
  const forward = net.forward(443);
  const client = grpcClient(net, forward.port);
  const { serialize, deserialize } = bytes;
  const unary = (name: string, text: string) =>
    new Promise<string>((resolve, reject) =>
      client.makeUnaryRequest(
        `/test.Echo/${name}`,
        serialize,
        deserialize,
        encode(text),
        (error, reply) => error ? reject(error) : resolve(`${reply}`),
      )
    );
  assertEquals(await unary("Unary", "hello"), "hello!");
  const failed = await unary("Fail", "").catch((error) => error as grpc.ServiceError);
  assertEquals((failed as grpc.ServiceError).code, grpc.status.NOT_FOUND);
  const many = await Promise.all(Array.from({ length: 60 }, (_, at) => unary("Unary", `${at}`)));
  assertEquals(many, Array.from({ length: 60 }, (_, at) => `${at}!`));
  // Each message is written once the last one was answered.
  const chat = client.makeBidiStreamRequest("/test.Echo/Chat", serialize, deserialize);
  const texts: string[] = [];
  const words = ["one", "two", "three"];
  chat.write(encode(words[0]));
  await new Promise<void>((resolve, reject) => {
    chat.on("data", (reply: Buffer) => {
      texts.push(`${reply}`);
      if (texts.length < words.length) chat.write(encode(words[texts.length]));
      else chat.end();
    });
    chat.on("end", resolve).on("error", reject);
  });
  assertEquals(texts, ["ONE", "TWO", "THREE"]);
  client.close();
  forward.close();
  await net.idle();
  const last = net.gate.entries.find(({ event }) => event.http!.request.grpc?.method === "Chat")!;
  const { requests, responses, status } = (last.outcome!.response as HttpEvent["response"])!.grpc!;
  assertEquals([requests, responses, status], [3, 3, 0]);
});

Deno.test("a server of grpc-js is called by python3-grpcio", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const { serialize, deserialize } = bytes;
  const method = (path: string, requestStream: boolean, responseStream: boolean) => ({
    ...{ path, requestStream, responseStream },
    ...{ requestSerialize: serialize, requestDeserialize: deserialize },
    ...{ responseSerialize: serialize, responseDeserialize: deserialize },
  });
  const server = new grpc.Server();
  server.addService({
    Unary: method("/test.Echo/Unary", false, false),
    Chat: method("/test.Echo/Chat", true, true),
  }, {
    Unary: ((call, reply) => reply(null, encode(`${call.request}!`))) as grpc.handleUnaryCall<
      Uint8Array,
      Uint8Array
    >,
    Chat: ((call) => {
      call.on("data", (message: Buffer) => call.write(encode(`${message}`.toUpperCase())));
      call.on("end", () => call.end());
    }) as grpc.handleBidiStreamingCall<Buffer, Buffer>,
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync(
      "127.0.0.1:0",
      grpc.ServerCredentials.createInsecure(),
      (error, bound) => error ? reject(error) : resolve(bound),
    )
  );
  target = { hostname: "127.0.0.1", port };
  try {
    const lines = await grpcCalls(
      net,
      `
print(unary("Unary")(b"hello", timeout=60))
print(list(channel.stream_stream("/test.Echo/Chat")(iter([b"a", b"b" * 100000]), timeout=60))[0])
print(outcome(lambda: unary("Missing")(b"", timeout=60))[0])
`,
      80,
    );
    assertEquals(lines, ["b'hello!'", "b'A'", "UNIMPLEMENTED"]);
  } finally {
    server.forceShutdown();
  }
});

Deno.test("nghttp and curl: bodies both ways", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  await using upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {}, ...await net.leaf(HOST) },
    async (request) => new Response(new Uint8Array((await request.arrayBuffer()).byteLength * 2)),
  );
  target = { hostname: "127.0.0.1", port: upstream.addr.port };
  const path = `${net.dir}/upload`;
  await Deno.writeFile(path, new Uint8Array(500_000).fill(97));
  const { stdout } = await net.curl(
    `https://${HOST}/curl`,
    ...["--http2", "--data-binary", `@${path}`, "-o", "/dev/null", "-w", "%{http_version} %{size_download}"],
  );
  assertStringIncludes(stdout, "2 1000000");
  const forward = net.forward(443);
  const run = await new Deno.Command("nghttp", {
    args: ["-s", "-n", "-v", "-m", "5", "-w", "20", "-d", path, `https://127.0.0.1:${forward.port}/nghttp`]
      .concat(["-H", `:authority: ${HOST}`, "--no-verify-peer"]),
  }).output();
  const text = new TextDecoder().decode(run.stdout);
  assertEquals(text.match(/:status: 200/g)?.length, 5, text.slice(-2000));
  forward.close();
});
