/** HTTP/2 to upstreams: streams, windows, and faulty upstreams. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as h2 from "../../../lib/network/http2/frame.ts";
import { encodeHeaders } from "../../../lib/network/http2/hpack.ts";
import { h2Data as data, h2Ok as ok, h2Upstream } from "../../helper/http2_upstream.ts";
import { TestNet } from "../../helper/net.ts";

const HOST = "api.example.com";
const text = (value: string) => new TextEncoder().encode(value);

Deno.test("long bodies go both ways at once, within windows", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  let versions = 0;
  const upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, ...await net.leaf(HOST), onListen() {} },
    (request) => {
      versions++;
      return new Response(request.body, { headers: { "x-kind": request.headers.get("content-type") ?? "" } });
    },
  );
  target = { hostname: "127.0.0.1", port: (upstream.addr as Deno.NetAddr).port };
  const size = 12 * 1024 * 1024;
  const path = `${net.dir}/big`;
  await Deno.writeFile(path, new Uint8Array(size).map((_, at) => at % 251));
  const runs = await Promise.all(
    [1, 2, 3].map((at) =>
      net.curl(`https://${HOST}/${at}`, "--data-binary", `@${path}`, "-o", `${path}.${at}`, "-H", "Expect:")
    ),
  );
  for (const [at, { code, stderr }] of runs.entries()) {
    assertEquals(code, 0, stderr);
    const got = await Deno.readFile(`${path}.${at + 1}`);
    const head = new TextDecoder().decode(got.subarray(0, 2000)).indexOf("\r\n\r\n") + 4;
    assertEquals([got.length - head, got.at(-1)], [size, (size - 1) % 251]);
  }
  assertEquals(versions, 3);
  await upstream.shutdown();
});

Deno.test("valid and faulty uses of HTTP/2", async (t) => {
  type Answer = Parameters<typeof h2Upstream>[1];
  const cases: [name: string, answer: Answer, status: number, body: string][] = [
    ["head and body", (at, send) => send(ok(at), data(at, "fine")), 200, "fine"],
    [
      "padding",
      (at, send) => send(ok(at), h2.frame(h2.DATA, h2.END_STREAM | h2.PADDED, at, text("\x03fine\0\0\0"))),
      200,
      "fine",
    ],
    [
      "a block in three frames",
      (at, send) => {
        const block = encodeHeaders([[":status", "200"], ["x-a", "b".repeat(100)]]);
        return send(
          h2.frame(h2.HEADERS, 0, at, block.subarray(0, 5)),
          h2.frame(h2.CONTINUATION, 0, at, block.subarray(5, 9)),
          h2.frame(h2.CONTINUATION, h2.END_HEADERS, at, block.subarray(9)),
          data(at, "fine"),
        );
      },
      200,
      "fine",
    ],
    [
      "interim response, ping, unknown frame and trailers",
      (at, send) =>
        send(
          h2.frame(h2.HEADERS, h2.END_HEADERS, at, encodeHeaders([[":status", "103"]])),
          h2.frame(h2.PING, 0, 0, new Uint8Array(8)),
          h2.frame(99, 0, at, text("?")),
          ok(at),
          data(at, "fine", 0),
          h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, at, encodeHeaders([["x-sum", "1"]])),
        ),
      200,
      "fine",
    ],
    [
      "a refused stream is retried",
      (at, send, count) =>
        count === 1
          ? send(h2.numberFrame(h2.RST_STREAM, at, h2.REFUSED_STREAM))
          : send(ok(at), data(at, "fine")),
      200,
      "fine",
    ],
    [
      "GOAWAY before the stream",
      (at, send, count) =>
        count === 1 ? send(h2.frame(h2.GOAWAY, 0, 0, new Uint8Array(8))) : send(ok(at), data(at, "fine")),
      200,
      "fine",
    ],
    [
      "GOAWAY after the stream",
      (at, send) => {
        const last = new Uint8Array(8);
        new DataView(last.buffer).setUint32(0, at);
        return send(h2.frame(h2.GOAWAY, 0, 0, last), ok(at), data(at, "fine"));
      },
      200,
      "fine",
    ],
    [
      "a reset",
      (at, send) => send(h2.numberFrame(h2.RST_STREAM, at, h2.CANCEL)),
      502,
      "reset the stream",
    ],
    [
      "a reset without error after a body that has its whole length",
      (at, send) =>
        send(
          ok(at, ["content-length", "80000"]),
          ...Array.from({ length: 8 }, () => data(at, "fine".repeat(2500), 0)),
          h2.numberFrame(h2.RST_STREAM, at, h2.NO_ERROR),
        ),
      200,
      "fine",
    ],
    [
      "a reset without error within a body",
      (at, send) =>
        send(
          ok(at, ["content-length", "9"]),
          data(at, "fine", 0),
          h2.numberFrame(h2.RST_STREAM, at, h2.NO_ERROR),
        ),
      502,
      "reset the stream",
    ],
    [
      "no status",
      (at, send) => send(h2.frame(h2.HEADERS, h2.END_HEADERS, at, encodeHeaders([["x", "y"]]))),
      502,
      "invalid :status",
    ],
    [
      "a header value with a line break",
      (at, send) => send(ok(at, ["x", "a\r\nset-cookie: b"])),
      502,
      "control characters",
    ],
    [
      "a header name with a line break",
      (at, send) => send(ok(at, ["x: y\r\nz", "a"])),
      502,
      "invalid header field name",
    ],
    ["a body before its head", (at, send) => send(data(at, "x")), 502, "before its head"],
    [
      "less than declared",
      (at, send) => send(ok(at, ["content-length", "9"]), data(at, "fine")),
      502,
      "shorter",
    ],
    [
      "more than declared",
      (at, send) => send(ok(at, ["content-length", "2"]), data(at, "fine")),
      502,
      "longer",
    ],
    [
      "a frame that is too long",
      (_, send) => send(new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0, 1])),
      502,
      "longer than",
    ],
    [
      "an interrupted block",
      (at, send) => send(h2.frame(h2.HEADERS, 0, at, text("")), data(at, "")),
      502,
      "interrupted",
    ],
    [
      "an endless block",
      async (at, send) => {
        await send(h2.frame(h2.HEADERS, 0, at, new Uint8Array(16_000)));
        for (let n = 0; n < 10_000; n++) await send(h2.frame(h2.CONTINUATION, 0, at, new Uint8Array()));
      },
      502,
      "too long",
    ],
    [
      "a push",
      (at, send) => send(h2.frame(h2.PUSH_PROMISE, h2.END_HEADERS, at, new Uint8Array(4))),
      502,
      "server push",
    ],
    [
      "a window that overflows",
      (at, send) => send(h2.numberFrame(h2.WINDOW_UPDATE, at, h2.WINDOW_MAX)),
      502,
      "beyond the maximum",
    ],
    [
      "settings out of range",
      (_, send) => send(h2.settingsFrame([[h2.MAX_FRAME_SIZE, 1]])),
      502,
      "out of range",
    ],
    [
      "padding longer than its frame",
      (at, send) => send(ok(at, ["content-length", "4"]), h2.frame(h2.DATA, h2.PADDED, at, text("\xff"))),
      502,
      "padding",
    ],
  ];
  for (const [name, answer, status, body] of cases) {
    await t.step(name, async () => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ target: () => target });
      const upstream = await h2Upstream(await net.leaf(HOST), answer);
      target = upstream.target;
      const client = await net.tls(HOST);
      const got = await client.ask(`GET /x HTTP/1.1\r\nHost: ${HOST}\r\nTE: trailers\r\n\r\n`);
      assertEquals(got.status, status, got.body);
      assertStringIncludes(got.body, body);
      if (name.includes("trailers")) assertEquals(got.trailers, "x-sum: 1\r\n");
      client.close();
      await net.idle();
      assertEquals(net.gate.entries[0].outcome!.error === undefined, status === 200);
      assert(net.proxy.size.upstreams <= 1);
      upstream.close();
    });
  }
});
