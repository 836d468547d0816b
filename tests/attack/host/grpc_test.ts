/** gRPC of a hostile guest: a request that only says it is a call, so that its body or its answer is read less strictly. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { h2Fields, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";

const RULES = `[profiles.rules.no-answer]
name = "no answer"
action = "block"
match = 'http.response.body.text.contains("classified")'

[profiles.rules.no-words]
name = "no words"
action = "block"
match = 'http.request.body.text.contains("forbidden")'

[profiles.rules.no-call]
name = "no call"
action = "block"
match = 'http.request.grpc.service == "bank.Money"'
`;

async function asked(path: string, type: string, body: string, rules = RULES) {
  const seen: string[] = [];
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    seen.push(await request.text());
    const json = { "content-type": "application/json" };
    return new Response('{"text":"classified"}', { headers: json });
  });
  const target = { hostname: "127.0.0.1", port: upstream.addr.port };
  await using net = await TestNet.open({ target: () => target, rules });
  using client = await RawHttp2.open(net);
  const fields = h2Fields({ ":method": "POST", ":path": path, "content-type": type });
  await client.send(
    h2Request(1, fields, h2.END_HEADERS),
    h2.frame(h2.DATA, h2.END_STREAM, 1, new TextEncoder().encode(body)),
  );
  const end = await client.end();
  client.conn.close();
  await net.idle();
  return { end, seen, rule: net.gate.entries.at(-1)?.decision?.rule.id };
}

const statusOf = ({ fields }: { fields?: [string, string][] }) =>
  fields?.find(([name]) => name === "grpc-status")?.[1];

Deno.test("an answer that is no gRPC is held and searched as any other", async () => {
  const { end } = await asked("/a.B/C", "application/grpc", "x");
  assertEquals(end.body.includes("classified"), false);
  assertEquals(statusOf(end), "7");
});

Deno.test("a body that is no message is decided on whole", async () => {
  const { end, seen, rule } = await asked("/a.B/C", "application/grpc", '{"text":"forbidden"}');
  assertEquals([seen, rule, statusOf(end)], [[], "no-words", "7"]);
});

Deno.test("no spelling of the content type hides a call that a server would take", async () => {
  for (
    const type of [
      "application/grpc",
      "Application/gRPC+proto",
      " application/grpc;a=b",
      "application/grpc-web",
    ]
  ) {
    const { seen, rule } = await asked("/bank.Money/Send", type.trim(), "");
    assertEquals([seen, rule], [[], "no-call"], type);
  }
  const { end } = await asked("/bank.Money/Send", "text/plain", "", "");
  assert(end.status === 200);
  assertStringIncludes(end.body, "classified");
});
