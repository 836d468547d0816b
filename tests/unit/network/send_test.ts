/**
 * Requests of the host, on the guest's path and under its rules (docs/design/contracts/05-policy.md §5, actor
 * `host`).
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { RequestBlocked } from "../../../lib/network/mod.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";
import { httpResponse } from "../../helper/gate.ts";

const URL_ = "https://api.example.com/v1/x?a=b";

Deno.test("a request of the host is an event like one of the guest", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = fixedUpstream(
    "HTTP/1.1 302 Found\r\nlocation: https://elsewhere.example.com/\r\ncontent-length: 2\r\n\r\nno",
    await net.leaf("api.example.com"),
  );
  target = upstream.target;
  const response = await net.proxy.send({ method: "POST", url: URL_, headers: { "X-A": "ü" }, body: "hi" });
  // A redirect is another request.
  assertEquals([response.status, response.headers.get("location")], [302, "https://elsewhere.example.com/"]);
  assertEquals(await response.text(), "no");
  const [{ event }] = net.gate.entries;
  assertEquals([event.common.actor, event.http!.request.url, event.http!.request.body.text], [
    "host",
    URL_,
    "hi",
  ]);
  assertEquals([event.http!.request.headers["x-a"], httpResponse(net.gate.entries[0]).status], [["ü"], 302]);
  upstream.close();
});

Deno.test("a path of the host that servers read as another is sent as they read it, and recorded as both", async () => {
  const upstream = fixedUpstream("HTTP/1.1 204 No Content\r\n\r\n");
  await using net = await TestNet.open({ target: () => upstream.target });
  for (const path of ["/plain", "/%61dmin"]) {
    await net.proxy.send({ method: "GET", url: `http://api.example.com${path}` });
  }
  assertEquals(upstream.requests.map((request) => request.split(" ")[1]), ["/plain", "/admin"]);
  assertEquals(
    net.gate.entries.map(({ event }) => [event.http!.request.path, event.http!.request.raw_path]),
    [
      ["/plain", undefined],
      ["/admin", "/%61dmin"],
    ],
  );
  upstream.close();
});

Deno.test("blocked, invalid and failed requests have different errors", async (t) => {
  const cases: [name: string, url: string, code: string][] = [
    ["blocked", "http://metadata.google.internal/", "policy.blocked"],
    ["a private address, spelled otherwise", "http://0x7f.0.0.1/", "policy.blocked"],
    ["not a URL", "nothing", "request.invalid"],
    ["another scheme", "file:///etc/passwd", "request.invalid"],
    ["a password", "https://a:b@api.example.com/", "request.invalid"],
    ["a closed port", "http://closed.example.com/", "upstream.failed"],
  ];
  await using net = await TestNet.open({ target: () => ({ hostname: "127.0.0.1", port: 1 }) });
  for (const [name, url, code] of cases) {
    await t.step(name, async () => {
      const error = await assertRejects(() => net.proxy.send({ method: "GET", url }), SbxError);
      assertEquals(error.code, code);
      if (code === "policy.blocked") {
        assert(error instanceof RequestBlocked);
        assertEquals(error.decision.rule.id, "block-private-http");
      }
    });
  }
});

Deno.test("a request of the host with a method, header or path of no single reading goes nowhere", async (t) => {
  await using net = await TestNet.open({ target: () => ({ hostname: "127.0.0.1", port: 1 }) });
  const url = "http://api.example.com/";
  for (
    const [name, request] of Object.entries<Parameters<typeof net.proxy.send>[0]>({
      "a method with a space": { method: "GET /x HTTP/1.1\r\nx:", url },
      "an empty method": { method: "", url },
      "a header name with a line break": { method: "GET", url, headers: { "a\r\nb": "1" } },
      "a header value with a line break": { method: "GET", url, headers: { a: "1\r\nb: 2" } },
      "a user name": { method: "GET", url: "http://user@api.example.com/" },
    })
  ) {
    await t.step(name, async () => {
      const error = await assertRejects(() => net.proxy.send(request), SbxError);
      assertEquals([error.code, net.gate.entries.length], ["request.invalid", 0]);
    });
  }
});

Deno.test("answers that have no body have none", async (t) => {
  for (const [method, status] of [["GET", 204], ["GET", 205], ["GET", 304], ["HEAD", 200]] as const) {
    await t.step(`${method} ${status}`, async () => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ target: () => target });
      const upstream = fixedUpstream(
        `HTTP/1.1 ${status} X\r\n${status === 205 ? "content-length: 0\r\n" : ""}\r\n`,
        await net.leaf("api.example.com"),
      );
      target = upstream.target;
      const response = await net.proxy.send({ method, url: URL_ });
      assertEquals([response.status, response.body, await response.text()], [status, null, ""]);
      upstream.close();
    });
  }
});

Deno.test("names are resolved under policy", async () => {
  const lookups: string[] = [];
  await using net = await TestNet.open({
    lookup: (name, actor) => {
      lookups.push(`${actor} ${name}`);
      return Promise.reject(new SbxError("policy.blocked", `the lookup of ${name} was blocked`));
    },
  });
  const error = await assertRejects(() => net.proxy.send({ method: "GET", url: URL_ }), SbxError);
  assertEquals([error.code, lookups], ["policy.blocked", ["host api.example.com"]]);
  assertEquals(ADDRESS, "203.0.113.7");
});

Deno.test("a long response is read at the pace of its reader, and can be cancelled", async () => {
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    await client.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    while (true) await client.send(`10000\r\n${"x".repeat(65536)}\r\n`);
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const response = await net.proxy.send({ method: "GET", url: "http://api.example.com/" });
  const reader = response.body!.getReader();
  assertEquals((await reader.read()).value![0], 120);
  await reader.cancel();
  await eventually("it is recorded", () => net.gate.entries[0].outcome?.error !== undefined);
  assertEquals(net.proxy.size.upstreams, 0);
  upstream.close();
});

Deno.test("a request of the host can be cancelled while it waits", async () => {
  const received = Promise.withResolvers<void>();
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    received.resolve();
    await client.rest();
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const cancel = new AbortController();
  const sent = net.proxy.send({ method: "GET", url: "http://api.example.com/", signal: cancel.signal });
  await received.promise;
  cancel.abort();
  await assertRejects(() => sent, SbxError);
  assertEquals(net.proxy.size.upstreams, 0);
  upstream.close();
});
