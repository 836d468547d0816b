/**
 * Connections and requests that reach another destination, or carry another
 * message, than rules were asked about.
 */
import { assertEquals } from "@std/assert";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";

const HOST = "db.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const RULES = `
[profiles.rules.tcp]
action = "allow"
match = 'http.request.scheme == "tcp" && http.request.host == "${HOST}"'
`;

Deno.test("a server name does not lead another protocol to an address of the guest's choice", async () => {
  const received: string[] = [];
  await using net = await TestNet.open({ rules: RULES, agrees: () => false, target: () => upstream.target });
  const upstream = rawUpstream(
    async (client) => void received.push(await client.rest()),
    await net.leaf(HOST),
  );
  const client = await net.tls(HOST, 5432);
  await client.send("\x00\x00\x00\x08not http\r\n");
  assertEquals(await client.closed(), true);
  client.close();
  await net.idle();
  upstream.close();
  assertEquals(received, []);
  assertEquals(net.gate.entries.map(({ event, decision }) => [event.http!.request.host, decision!.rule.id]), [
    [HOST, "guard-domain-fronting"],
  ]);
});

Deno.test("a rule that sends another protocol elsewhere leads to that host's address", async () => {
  const rules = `${RULES}
[profiles.rules.old]
action = "allow"
priority = 11
match = 'http.request.scheme == "tcp" && http.request.host == "old.example.com"'

[profiles.rules.elsewhere]
action = "rewrite"
priority = 10
match = 'http.request.scheme == "tcp" && http.request.host == "old.example.com"'
rewrite = [{ op = "set", path = "http.request.host", value = "${HOST}" }]
`;
  const looked: string[] = [];
  const net = await TestNet.open({
    rules,
    timeouts: { connect: 1000 },
    lookup: (name) => {
      looked.push(name);
      return Promise.resolve(["127.0.0.1"]);
    },
    nameOf: () => "old.example.com",
  });
  await using _ = net;
  const client = await net.client(9);
  await client.send("SSH-2.0-x\r\n");
  assertEquals(await client.closed(), true);
  client.close();
  assertEquals(looked, [HOST]);
});

Deno.test("CONNECT is refused in every form", async (t) => {
  for (const target of ["/", `${HOST}:443`, `http://${HOST}/`, "*"]) {
    for (const method of ["CONNECT", "connect"]) {
      await t.step(`${method} ${target}`, async () => {
        const upstream = fixedUpstream(OK);
        await using net = await TestNet.open({ target: () => upstream.target });
        const client = await net.client();
        const { status } = await client.ask(`${method} ${target} HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
        client.close();
        upstream.close();
        assertEquals([status, upstream.requests], [400, []]);
        assertEquals(net.gate.entries[0].decision?.rule.id, "guard-malformed-http");
      });
    }
  }
});

Deno.test("fields that imitate framing are dropped, and the event says so", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  const names = [
    "Transfer_Encoding",
    "Content_Length",
    "content.length",
    "Transfer-Encoding!",
    "_Host",
    "Content_Encoding",
    "Content__Type",
    "Proxy_Connection",
  ];
  const fields = names.map((name) => `${name}: chunked\r\n`).join("");
  const more = "X_Request_Id: 7\r\nx-plain: 1\r\n";
  const { status } = await client.ask(
    `POST / HTTP/1.1\r\nHost: ${HOST}\r\n${fields}${more}content-length: 2\r\n\r\nhi`,
  );
  client.close();
  upstream.close();
  assertEquals(status, 200);
  const sent = upstream.requests[0].split("\r\n").slice(1).map((line) => line.split(":")[0]);
  assertEquals(sent.filter((name) => !/^[a-z-]*$/.test(name)), ["x_request_id"]);
  const { event } = net.gate.entries[0];
  assertEquals(
    event.common.labels.dropped_headers,
    "transfer-encoding content-length host content-encoding content-type proxy-connection",
  );
  assertEquals(Object.keys(event.http!.request.headers).toSorted(), ["host", "x-plain", "x_request_id"]);
});

Deno.test("trailers do not imitate framing either", async () => {
  const received: string[] = [];
  const upstream = rawUpstream(async (client) => {
    received.push(
      await client.until("\r\n\r\n"),
      await client.until("0\r\n"),
      await client.until("\r\n\r\n"),
    );
    await client.send(OK);
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client(80, ADDRESS);
  const { status } = await client.ask(
    `POST / HTTP/1.1\r\nHost: ${HOST}\r\ntransfer-encoding: chunked\r\n\r\n` +
      "2\r\nhi\r\n0\r\nContent_Length: 5\r\nx-sum: 1\r\n\r\n",
  );
  client.close();
  upstream.close();
  assertEquals(status, 200);
  assertEquals(received.join("").includes("ontent_"), false);
});
