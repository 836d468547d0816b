/** Spellings of a host that a rule names, by which connections passed the rule. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { StreamOpen } from "../../../lib/machine/guest/schema.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const ADDRESS = "203.0.113.9";
const RULES = `
[profiles.rules.no-dotted]
action = "block"
match = 'http.request.host == "${ADDRESS}"'
`;

Deno.test("no spelling of an address passes a rule on it", async (t) => {
  const hosts = [
    "203.0.113.9",
    "203.0.113.9.",
    "0xcb007109",
    "0xCB.0.0x71.0x9",
    "0313.0.0161.011",
    "3405803785",
    "203.0.28937",
    "[::ffff:203.0.113.9]",
    "[::ffff:cb00:7109]",
    "[0:0:0:0:0:ffff:cb00:7109]",
  ];
  for (const host of hosts) {
    for (const address of [ADDRESS, `::ffff:${ADDRESS}`]) {
      await t.step(`${host} at ${address}`, async () => {
        const upstream = fixedUpstream(OK);
        await using net = await TestNet.open({ rules: RULES, target: () => upstream.target });
        const client = await net.client(80, address);
        const { status } = await client.ask(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
        client.close();
        upstream.close();
        assertEquals([status, upstream.requests], [403, []]);
        const [{ event, decision }] = net.gate.entries;
        assertEquals([event.http!.request.host, decision!.rule.id], [ADDRESS, "no-dotted"]);
      });
    }
  }
});

Deno.test("another protocol to an address in IPv6 is a connection to the address", async () => {
  const rules = `
[profiles.rules.tcp]
action = "allow"
match = 'http.request.scheme == "tcp"'
${RULES}
`;
  await using net = await TestNet.open({ rules, timeouts: { silence: 1 } });
  const client = await net.client(25, `::ffff:${ADDRESS}`);
  await client.send("SSH-2.0-x\r\n");
  assertStringIncludes(await client.rest(), '(rule "no-dotted")');
  assertEquals(net.gate.entries.map(({ event, decision }) => [event.http!.request.host, decision!.rule.id]), [
    [ADDRESS, "no-dotted"],
  ]);
});

Deno.test("what is sent to an upstream names the host that was matched", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client(80, ADDRESS);
  await client.ask("GET / HTTP/1.1\r\nHost: 0xcb007109\r\n\r\n");
  client.close();
  upstream.close();
  assertEquals(upstream.requests[0].match(/^host: (.*)\r$/m)?.[1], ADDRESS);
});

Deno.test("a name that ends in a number is no host", async () => {
  await using net = await TestNet.open();
  const client = await net.client();
  const { status } = await client.ask("GET / HTTP/1.1\r\nHost: 1.2.3.4.5\r\n\r\n");
  client.close();
  assertEquals([status, net.gate.entries[0].decision?.rule.id], [400, "guard-malformed-http"]);
});

Deno.test("a stream to a name is refused and looked up by nobody", async () => {
  const open = { t: "Open", host_ip: "face.cc", port: 80, process_name: "x", pid: 1, stream: 1 };
  assertEquals(StreamOpen.safeParse(open).success, false);
  assertEquals(StreamOpen.safeParse({ ...open, host_ip: "203.0.113.9" }).success, true);
  await using net = await TestNet.open();
  const stream = { read: () => Promise.resolve(null), write: () => Promise.resolve(0), close: () => {} };
  await assertRejects(() => net.proxy.serve(stream, open, new Uint8Array()), SbxError, "an invalid address");
  assertEquals(net.gate.entries, []);
});
