/** A profile that passes a host uninspected, so that corp's rules on its content see nothing. */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";

Deno.test("a profile cannot pass a host uninspected past corp's rules on its content", async () => {
  const rules = `
[corp.rules.no-admin]
action = "block"
match = 'http.request.path.startsWith("/admin")'

[profiles.rules.pinned]
action = "rewrite"
match = 'http.request.method == "CONNECT" && http.request.host == "${HOST}"'
rewrite = [{ op = "set", path = "http.request.scheme", value = "tls" }]
`;
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ rules, target: () => target });
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", await net.leaf(HOST));
  target = upstream.target;
  // The client sees this machine's certificate: the connection is inspected.
  const client = await net.tls(HOST);
  const answers = [];
  for (const path of ["/admin", "/public"]) {
    answers.push((await client.ask(`GET ${path} HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)).status);
  }
  client.close();
  upstream.close();
  assertEquals([answers, upstream.requests.length], [[403, 200], 1]);
});
