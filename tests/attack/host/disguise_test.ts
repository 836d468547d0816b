/**
 * Requests and TLS in disguise, past the rules on what is in them, where a rule
 * allows other protocols to a host.
 */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const RULES = `
[corp.rules.no-admin]
action = "block"
match = 'http.request.path.startsWith("/admin")'

[profiles.rules.raw]
action = "allow"
match = 'http.request.method == "CONNECT" && http.request.scheme == "tcp"'
`;
const HEAD = "HTTP/1.1\r\nHost: api.example.com\r\n\r\n";

/** Sends the beginning of a connection. @returns what the upstream got of it, and the rule that decided */
async function open(first: string): Promise<{ got: string; rule: string | undefined }> {
  let got = "";
  const seen = Promise.withResolvers<void>();
  const upstream = rawUpstream(async (_, conn) => {
    const buffer = new Uint8Array(1024);
    got = String.fromCharCode(...buffer.subarray(0, await conn.read(buffer) ?? 0));
    seen.resolve();
  });
  await using net = await TestNet.open({
    rules: RULES,
    timeouts: { head: 1000 },
    target: () => upstream.target,
  });
  const client = await net.client();
  await client.send(Uint8Array.from(first, (char) => char.charCodeAt(0)));
  // A refusal answers or closes; a relay reaches the upstream.
  await Promise.race([client.takeBytes(1).catch(() => {}), seen.promise]);
  client.close();
  upstream.close();
  await net.idle();
  return { got, rule: net.gate.entries.at(-1)?.decision?.rule.id };
}

Deno.test("no request in disguise passes for another protocol", async (t) => {
  const requests = [
    `${"\r\n".repeat(10)}GET /admin ${HEAD}`,
    `${"\n".repeat(20)}GET /admin ${HEAD}`,
    ` GET /admin ${HEAD}`,
    `\tGET /admin ${HEAD}`,
    `GET\t/admin\t${HEAD}`,
    `GET\v/admin ${HEAD}`,
    `GET /admin ${HEAD.replace("HTTP", "http")}`,
    "GET /admin\r\n",
    "GET http://api.example.com/admin\n",
    `X_GET /admin ${HEAD}`,
  ];
  for (const request of requests) {
    await t.step(JSON.stringify(request.slice(0, 40)), async () => {
      const { got, rule } = await open(request);
      assertEquals([got, rule === "no-admin" ? "guard-malformed-http" : rule], ["", "guard-malformed-http"]);
    });
  }
});

Deno.test("no TLS in disguise passes for another protocol", async (t) => {
  const hellos = {
    "a warning first": "\x15\x03\x01\x00\x02\x01\x5a\x16\x03\x01\x00\x05",
    "the ClientHello of SSL 2": "\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
  };
  for (const [name, hello] of Object.entries(hellos)) {
    await t.step(name, async () => {
      assertEquals(await open(hello), { got: "", rule: "guard-malformed-tls" });
    });
  }
});

Deno.test("other protocols still pass", async (t) => {
  for (
    const first of [
      "SSH-2.0-OpenSSH_9\r\n",
      "*1\r\n$4\r\nPING\r\n",
      "NICK me\r\n",
      '{"id": 1}',
      "\x80\0\0\0\0\0\0\0",
    ]
  ) {
    await t.step(JSON.stringify(first), async () => {
      assertEquals(await open(first), { got: first, rule: "raw" });
    });
  }
});
