/** The proxy of a VM by its streams: which it serves, how many at once, and its end. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { TCP_STREAMS_MAX } from "../../../lib/machine/guest/wire/mod.ts";
import { HEAD_MAX } from "../../../lib/network/limit.ts";
import { FakeStream } from "../../helper/fake_stream.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const OPEN = { host_ip: ADDRESS, port: 80, process_name: "curl", pid: 42 };

/** Serves one stream. @param text sent by the guest */
function serve(net: TestNet, text: string, open: Partial<typeof OPEN> = {}, first = "") {
  const stream = new FakeStream();
  if (text !== "") stream.feed(text);
  const serving = net.proxy.serve(stream, { ...OPEN, ...open }, new TextEncoder().encode(first));
  return { stream, serving };
}

Deno.test("a stream is served from the bytes that came with it, and closed at its end", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  const { stream, serving } = serve(net, `Host: ${HOST}\r\n\r\n`, {}, "GET /x HTTP/1.1\r\n");
  assertEquals(net.proxy.size.guests, 1);
  await eventually("it is answered", () => stream.writes.length > 0);
  stream.feed(null);
  await serving;
  assertEquals([stream.writes.join(""), net.proxy.size.guests, stream.closes > 0], [OK, 0, true]);
  const [{ event }] = net.gate.entries;
  assertEquals([event.common.actor, event.common.process?.executable, event.common.process?.pid], [
    "vm",
    "curl",
    42,
  ]);
  assertEquals(event.http!.request.path, "/x");
  upstream.close();
});

Deno.test("a stream to something that is no address is closed, and nothing is looked up", async () => {
  await using net = await TestNet.open({ lookup: () => Promise.reject(new Error("looked up")) });
  for (const host_ip of ["api.example.com", "", "1.2.3", "127.0.0.1:80"]) {
    const { stream, serving } = serve(net, "", { host_ip });
    const error = await assertRejects(() => serving, SbxError);
    assertEquals([error.code, stream.closes], ["net.address.invalid", 1]);
  }
  assertEquals([net.gate.entries, net.proxy.size.guests], [[], 0]);
});

Deno.test("a guest that ends before it said anything leaves no event", async () => {
  await using net = await TestNet.open();
  for (const port of [80, 5432]) {
    const { stream, serving } = serve(net, "", { port });
    stream.feed(null);
    await serving;
  }
  assertEquals(net.gate.entries, []);
});

Deno.test("streams beyond the limit are refused, with an event, until others end", async () => {
  await using net = await TestNet.open();
  const streams = Array.from({ length: TCP_STREAMS_MAX }, () => new FakeStream());
  const serving = streams.map((stream) => net.proxy.serve(stream, OPEN, new Uint8Array()));
  assertEquals([net.proxy.size.guests, net.gate.entries.length], [TCP_STREAMS_MAX, 0]);
  const { stream, serving: refused } = serve(net, "GET / HTTP/1.1\r\n\r\n");
  await refused;
  assertEquals([stream.closes, stream.writes], [1, []]);
  const [{ event, decision }] = net.gate.entries;
  assertEquals([event.http!.request.host, decision!.rule.id], [ADDRESS, "guard-connections"]);
  assertStringIncludes(decision!.rule.reason!, `${TCP_STREAMS_MAX} open connections`);
  streams[0].feed(null);
  await serving[0];
  assertEquals(net.proxy.size.guests, TCP_STREAMS_MAX - 1);
  const next = serve(net, "");
  next.stream.feed(null);
  await next.serving;
  assertEquals(net.gate.entries.length, 1);
  for (const each of streams) each.feed(null);
  await Promise.all(serving);
});

Deno.test("a closed proxy closes its streams, serves no other and sends nothing", async () => {
  await using net = await TestNet.open();
  const open = new FakeStream();
  const serving = net.proxy.serve(open, OPEN, new Uint8Array());
  net.proxy.close();
  assertEquals(open.closes > 0, true);
  open.feed(new Error("closed"));
  await serving;
  const late = serve(net, `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  await late.serving;
  assertEquals([late.stream.closes, late.stream.writes], [1, []]);
  const error = await assertRejects(
    () => net.proxy.send({ method: "GET", url: `http://${HOST}/` }),
    SbxError,
  );
  assertEquals([error.code, net.gate.entries], ["net.closed", []]);
});

const statusesOf = (stream: FakeStream) =>
  [...stream.writes.join("").matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status);

Deno.test("requests on one connection: what may stand between them, and what ends it", async (t) => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  const get = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`;
  const headOf = (length: number) => {
    const head = `GET / HTTP/1.1\r\nHost: ${HOST}\r\nx: \r\n\r\n`;
    return head.replace("x: ", `x: ${"y".repeat(length - head.length)}`);
  };
  const post = (more: string, body = "") => `POST / HTTP/1.1\r\nHost: ${HOST}\r\n${more}\r\n\r\n${body}`;
  const refused = post("Content-Length: 1000", "x".repeat(1000)).replace("POST /", "POST /a%2f..%2fb");
  const announced = post("Content-Length: 1000\r\nExpect: 100-continue").replace(
    "POST /",
    "POST /a%2f..%2fb",
  );
  const cases: [name: string, text: string, statuses: string[]][] = [
    ["two requests", get + get, ["200", "200"]],
    ["line breaks before and between", `\r\n${get}\r\n\r\n${get}`, ["200", "200"]],
    ["a connection to be closed", get.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n") + get, ["200"]],
    ["HTTP/1.0", get.replace("1.1", "1.0") + get, ["200"]],
    ["HTTP/1.0 that stays", get.replace("1.1\r\n", "1.0\r\nConnection: keep-alive\r\n") + get, [
      "200",
      "200",
    ]],
    ["a head of the limit", headOf(HEAD_MAX) + get, ["200", "200"]],
    ["a head over the limit", headOf(HEAD_MAX + 1) + get, ["400"]],
    ["an announced body that is there", post("Expect: 100-continue\r\nContent-Length: 2", "hi") + get, [
      "200",
      "200",
    ]],
    ["a refused path with an announced body", announced, ["403"]],
    ["no body that is asked for", post("Expect: 100-continue\r\nContent-Length: 0") + get, ["200", "200"]],
    ["a malformed request", "GET / HTTP/1.1\r\n\r\n" + get, ["400"]],
    ["a refused path", refused + get, ["403"]],
    ["half a head", get + "GET / HT", ["200"]],
  ];
  for (const [name, text, statuses] of cases) {
    await t.step(name, async () => {
      const { stream, serving } = serve(net, text);
      await eventually(
        "it is answered",
        () => stream.closes > 0 || statusesOf(stream).length === statuses.length,
      );
      stream.feed(null);
      await serving;
      assertEquals(statusesOf(stream), statuses);
    });
  }
  upstream.close();
});

Deno.test("a client that sends all of a large body before it reads gets the refusal", async () => {
  const upstream = fixedUpstream(OK);
  const rules = `[profiles.rules.no-post]\naction = "block"\nmatch = 'http.request.method == "POST"'\n`;
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const body = "x".repeat(12 * 1024 * 1024);
  const post = `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const { stream, serving } = serve(net, `${post}GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  await eventually("both are answered", () => stream.closes > 0 || statusesOf(stream).length === 2);
  stream.feed(null);
  await serving;
  assertEquals(statusesOf(stream), ["403", "200"]);
  upstream.close();
});

Deno.test("packets outside of connections leave an event that says where they went, and for how many it stands", async () => {
  await using net = await TestNet.open();
  const cases: [protocol: number, port: number | undefined, packets: number, url: string, reason: string][] =
    [
      [17, 53, 1, `udp://${ADDRESS}:53`, `UDP to ${ADDRESS} port 53 has no way out of a VM`],
      [1, undefined, 1, `icmp://${ADDRESS}`, `ICMP to ${ADDRESS} has no way out of a VM`],
      [
        58,
        undefined,
        2,
        `icmp://${ADDRESS}`,
        `ICMP to ${ADDRESS} has no way out of a VM; one of 2 in a second`,
      ],
      [6, 80, 1, `tcp://${ADDRESS}`, `TCP outside of a connection to ${ADDRESS} port 80 has no way out`],
      [47, undefined, 1, `ip://${ADDRESS}`, `IP protocol 47 to ${ADDRESS} has no way out of a VM`],
    ];
  for (const [protocol, port, packets, url, reason] of cases) {
    net.proxy.refuseTransport({ ...OPEN, protocol, port }, packets);
    const { event, decision } = net.gate.entries.at(-1)!;
    assertEquals([event.http!.request.url, event.http!.request.port], [url, port ?? 0]);
    assertEquals([decision!.rule.id, event.common.process?.pid], ["guard-transport", 42]);
    assertStringIncludes(decision!.rule.reason!, reason);
    assertEquals(decision!.rule.reason!.includes("; one of"), packets > 1);
  }
});
