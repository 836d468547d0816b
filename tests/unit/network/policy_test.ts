/** Effects of rules on the guest's connections, and guards that no rule can undo. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { runChild } from "../../helper/child.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";
import { httpResponse } from "../../helper/gate.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** A profile rule. */
const rule = (id: string, action: string, match: string, more = "") =>
  `[profiles.rules.${id}]\nname = "${id}"\naction = "${action}"\nmatch = '''${match}'''\n${more}\n`;

Deno.test("a blocked request gets the record of its decision, and nothing is sent", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({
    rules: rule(
      "no-writes",
      "block",
      `http.request.method == "POST" && http.request.body.text.contains("drop")`,
    ),
    target: () => upstream.target,
  });
  const client = await net.client();
  const post = (body: string) =>
    `POST /t HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const { status, headers, body } = await client.ask(post("drop table"));
  assertEquals([status, headers.get("content-type")], [403, "application/json"]);
  const record = JSON.parse(body);
  assertEquals([record.decision, record.rule.id], ["block", "no-writes"]);
  assertEquals(record.event_id, net.gate.entries[0].event.common.event_id);
  // The connection goes on, and other requests pass.
  assertEquals((await client.ask(post("select"))).status, 200);
  assertEquals([upstream.requests.length, net.gate.entries[0].outcome], [1, undefined]);
  client.close();
  upstream.close();
});

Deno.test("an ask holds the request until a person answers, and ends when its client disconnects", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({
    rules: rule("ask-first", "ask", `http.request.host == "${HOST}"`),
    target: () => upstream.target,
  });
  const request = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`;
  for (const [decision, status] of [["allow", 200], ["deny", 403]] as const) {
    const client = await net.client();
    await client.send(request);
    await eventually("it is asked", () => net.gate.asks.pending().length === 1);
    net.gate.asks.resolve(net.gate.asks.pending()[0].ask_id, { decision, scope: "once" });
    assertEquals((await client.answer()).status, status);
    client.close();
  }
  const client = await net.client();
  await client.send(request);
  await eventually("it is asked again", () => net.gate.asks.pending().length === 1);
  client.close();
  await net.idle();
  assertEquals([upstream.requests.length, net.gate.entries.length], [1, 3]);
  upstream.close();
  net.gate.asks.close();
});

Deno.test("a rewritten request is sent as rewritten", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({
    rules: rule(
      "change",
      "rewrite",
      `http.request.host == "${HOST}"`,
      `rewrite = [
        { op = "set", path = "http.request.method", value = "PUT" },
        { op = "set", path = "http.request.path", value = "/new" },
        { op = "replace", path = "http.request.query", pattern = "secret=[^&]*", value = "secret=x" },
        { op = "strip_header", path = "x-tracking" },
        { op = "replace", path = "http.request.body.text", pattern = "alice", value = "someone" },
        { op = "set", path = "http.request.host", value = "other.example.com" },
      ]`,
    ),
    target: (host) => host === "other.example.com" ? upstream.target : undefined,
  });
  const client = await net.client();
  const body = "hello alice";
  const { status } = await client.ask(
    `POST /old?secret=123&b=1 HTTP/1.1\r\nHost: ${HOST}\r\nX-Tracking: 1\r\nCookie: a=b\r\nAuthorization: Basic zzzz\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
  assertEquals(status, 200);
  assertEquals(
    upstream.requests,
    [
      "PUT /new?secret=x&b=1 HTTP/1.1\r\nhost: other.example.com\r\ncookie: a=b\r\nauthorization: Basic zzzz\r\n" +
      "content-length: 13\r\n\r\nhello someone",
    ],
  );
  const { request } = net.gate.entries[0].event.http!;
  assertEquals(request.url, "http://other.example.com/new?secret=x&b=1");
  // Sensitive fields are sent, and redacted in the event.
  assertEquals([request.headers["cookie"], request.headers["authorization"]], [["[redacted]"], [
    "Basic [redacted]",
  ]]);
  client.close();
  upstream.close();
});

Deno.test("an invalid rewrite, and one of a long body, send nothing", async () => {
  const upstream = fixedUpstream(OK);
  const cases = [
    [`{ op = "set", path = "http.request.path", value = "no path" }`, "x"],
    [`{ op = "set", path = "http.request.method", value = "GET /x" }`, "x"],
    [`{ op = "replace", path = "http.request.body.text", pattern = "x", value = "y" }`, "x".repeat(100_000)],
  ];
  for (const [rewrite, body] of cases) {
    await using net = await TestNet.open({
      rules: rule("change", "rewrite", "true", `rewrite = [${rewrite}]`),
      target: () => upstream.target,
    });
    const client = await net.client();
    const answer = await client.ask(
      `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    assertEquals([answer.status, JSON.parse(answer.body).code], [400, "policy.rewrite.invalid"]);
    assert(net.gate.entries[0].outcome!.error);
    client.close();
  }
  assertEquals(upstream.requests, []);
  upstream.close();
});

Deno.test("a response that a rule blocks does not reach the client", async () => {
  const upstream = fixedUpstream(
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 8\r\n\r\nbad news",
  );
  await using net = await TestNet.open({
    rules: rule("no-bad-news", "block", `http.response.body.text.contains("bad")`),
    target: () => upstream.target,
  });
  const client = await net.client();
  const { status, body } = await client.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  assertEquals([status, JSON.parse(body).rule.id], [403, "no-bad-news"]);
  const [entry] = net.gate.entries;
  assertEquals([entry.decision?.decision, httpResponse(entry).body.text], ["block", "bad news"]);
  client.close();
  upstream.close();
});

Deno.test("host, TLS name and DNS answers have to agree", async (t) => {
  const cases: [
    name: string,
    host: string,
    options: { sni?: string; address?: string; port?: number },
    status: number,
  ][] = [
    ["all agree", HOST, {}, 200],
    ["inside TLS too", HOST, { sni: HOST }, 200],
    ["case, last dot and own port say the same", `API.Example.COM.:80`, {}, 200],
    ["another host than TLS named", "other.example.com", { sni: HOST }, 403],
    ["no DNS answer names the address", HOST, { address: "198.51.100.9" }, 403],
    ["TLS names a host that is elsewhere", HOST, { sni: HOST, address: "198.51.100.9" }, 403],
    ["another port", `${HOST}:8080`, {}, 403],
    ["an address that is not the one", "203.0.113.8", {}, 403],
    ["the address itself", ADDRESS, {}, 200],
    ["a private address in octal is policy's", "0177.0.0.1", { address: "127.0.0.1" }, 403],
    ["a private address in hex is policy's", "0x7f.1", { address: "127.0.0.1" }, 403],
    ["a metadata address as a number is policy's", "2852039166", { address: "169.254.169.254" }, 403],
    ["IPv4 in IPv6 is policy's", "[::ffff:169.254.169.254]", { address: "::ffff:a9fe:a9fe" }, 403],
  ];
  for (const [name, host, { sni, address }, status] of cases) {
    await t.step(name, async () => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ target: () => target });
      const upstream = fixedUpstream(OK, sni ? await net.leaf(sni) : undefined);
      target = upstream.target;
      const client = sni ? await net.tls(sni, 443, address) : await net.client(80, address);
      const answer = await client.ask(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      assertEquals(answer.status, status, answer.body);
      assertEquals(upstream.requests.length, status === 200 ? 1 : 0);
      const { decision } = net.gate.entries.at(-1)!;
      const guard = name.includes("policy's") ? "block-private-http" : "guard-domain-fronting";
      if (status === 403) assertEquals([decision!.rule.id, JSON.parse(answer.body).rule.id], [guard, guard]);
      client.close();
      upstream.close();
    });
  }
});

const TLS_THROUGH = rule(
  "pinned",
  "rewrite",
  `http.request.method == "CONNECT" && http.request.host == "${HOST}"`,
  `rewrite = [{ op = "set", path = "http.request.scheme", value = "tls" }]`,
);

Deno.test("a rule passes the TLS of a pinned client uninspected, and its event shows that", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ rules: TLS_THROUGH, target: () => target });
  const leaf = await net.leaf(HOST);
  const upstream = fixedUpstream(OK, leaf);
  target = upstream.target;
  const forward = net.forward(443);
  const tcp = await Deno.connect({ hostname: "127.0.0.1", port: forward.port });
  // It trusts the upstream's CA, not the guest's.
  const tls = await Deno.startTls(tcp, { hostname: HOST, caCerts: [net.roots] });
  await tls.handshake();
  await tls.write(new TextEncoder().encode(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`));
  assertEquals(await tls.read(new Uint8Array(1000)), OK.length);
  tls.close();
  forward.close();
  await net.idle();
  assertEquals(net.gate.entries.length, 1);
  const [{ event, outcome, decision }] = net.gate.entries;
  assertEquals([event.http!.request.method, event.http!.request.scheme], ["CONNECT", "tls"]);
  assertEquals([decision!.rewrites.length, outcome!.error], [1, undefined]);
  assert(httpResponse(net.gate.entries[0]).bytes > OK.length);
  upstream.close();
});

Deno.test("a client that distrusts this machine's CA leaves an event", async () => {
  await using net = await TestNet.open({});
  const forward = net.forward(443);
  const { stderr } = await runChild("curl", {
    args: [
      "-sS",
      "--max-time",
      "20",
      "--connect-to",
      `${HOST}:443:127.0.0.1:${forward.port}`,
      `https://${HOST}/`,
    ],
  });
  assertStringIncludes(new TextDecoder().decode(stderr), "certificate");
  forward.close();
  await net.idle();
  const [{ event, outcome }] = net.gate.entries;
  assertEquals([event.http!.request.method, event.http!.request.host], ["CONNECT", HOST]);
  assertStringIncludes(outcome!.error!, "aborted the TLS handshake");
});

Deno.test("a protocol other than HTTP needs a rule, whichever side speaks first", async (t) => {
  const block =
    `[default.block-raw-tcp]\nname = "raw tcp"\naction = "block"\nmatch = 'http.request.scheme == "tcp"'\n`;
  const allow = rule("db", "allow", `http.request.scheme == "tcp" && http.request.port == 5432`);
  const cases: [name: string, rules: string, first: string, secure: boolean, allowed: boolean][] = [
    ["blocked", block, "SSH-2.0-x\r\n", false, false],
    ["allowed", block + allow, "HELO x\r\n", false, true],
    ["allowed, the server speaks first", block + allow, "", false, true],
    ["blocked inside TLS", block, "\x00\x01binary", true, false],
    ["allowed inside TLS", block + allow, "\x00\x01binary", true, true],
  ];
  for (const [name, rules, first, secure, allowed] of cases) {
    await t.step(name, async () => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ rules, target: () => target, timeouts: { silence: 1 } });
      const upstream = rawUpstream(async (client) => {
        await client.send("welcome ");
        await client.send(`you said ${await client.take(first.length)}`);
      }, secure ? await net.leaf(HOST) : undefined);
      target = upstream.target;
      const client = secure ? await net.tls(HOST, 5432) : await net.client(5432);
      if (first) await client.send(first);
      const answer = await client.rest();
      if (allowed) assertEquals(answer, `welcome you said ${first}`);
      else if (first.startsWith("SSH-")) assertStringIncludes(answer, 'raw tcp (rule "block-raw-tcp")');
      else assertEquals(answer, "");
      client.close();
      await net.idle();
      const [{ event, decision, outcome }] = net.gate.entries;
      assertEquals([event.http!.request.method, event.http!.request.scheme], ["CONNECT", "tcp"]);
      assertEquals(decision!.rule.id, allowed ? "db" : "block-raw-tcp");
      assertEquals(outcome !== undefined, allowed);
      assertEquals(upstream.conns.length, allowed ? 1 : 0);
      upstream.close();
    });
  }
});
