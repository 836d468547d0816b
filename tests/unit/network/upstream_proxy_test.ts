/** Upstreams of a guest behind the proxy of its host. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { HostNetwork, readProxies } from "../../../lib/base/proxy/mod.ts";
import { HttpProxy } from "../../helper/http_proxy.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";

async function openNet(proxy: HttpProxy, rules: string): Promise<TestNet> {
  const host = new HostNetwork(await readProxies({ url: proxy.url }));
  return await TestNet.open({ rules, connect: (target, signal) => host.connect(target, signal) });
}

const ALLOW = `[profiles.rules.all]
name = "all"
action = "allow"
match = 'has(http.request)'
`;

Deno.test("https and http go through CONNECT to the address that policy decided on", async () => {
  await using upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url }) => new Response(`at ${new URL(url).host}`),
  );
  using proxy = new HttpProxy({ to: upstream.addr.port });
  await using net = await openNet(proxy, ALLOW);
  assertStringIncludes((await net.curl("http://site.example/")).stdout, "at site.example");
  assertEquals(proxy.lines, [`CONNECT ${ADDRESS}:80 HTTP/1.1`]);
  const { cert, key } = await net.leaf("tls.example");
  await using secure = Deno.serve(
    { hostname: "127.0.0.1", port: 0, cert, key, onListen() {} },
    () => new Response("over TLS"),
  );
  using second = new HttpProxy({ to: secure.addr.port });
  const host = new HostNetwork(await readProxies({ url: second.url }));
  await using tls = await TestNet.open({
    rules: ALLOW,
    connect: (target, signal) => host.connect(target, signal),
  });
  // The upstream's certificate is of another CA than this guest's net trusts: the
  // check of names is not the proxy's.
  assertStringIncludes((await tls.curl("https://tls.example/")).stdout, "untrusted authority");
  assertEquals(second.lines, [`CONNECT ${ADDRESS}:443 HTTP/1.1`]);
});

Deno.test("a blocked request does not reach the proxy, and a refusal of the proxy does not tell where it is", async () => {
  using proxy = new HttpProxy({ answer: "HTTP/1.1 403 no\r\n\r\n" });
  const block = `[profiles.rules.no]
name = "no"
action = "block"
match = 'http.request.host == "blocked.example"'
`;
  await using net = await openNet(proxy, ALLOW + block);
  assertStringIncludes((await net.curl("http://blocked.example/")).stdout, "403");
  assertEquals(proxy.lines, []);
  const { stdout } = await net.curl("http://site.example/");
  assertStringIncludes(stdout, "502");
  assertStringIncludes(stdout, "through the proxy of this machine");
  assert(!stdout.includes(String(proxy.port)), stdout);
});
