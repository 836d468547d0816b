/** Encodings that hid a body from the rules that read it. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { brotliCompressSync, deflateRawSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { HttpEvent } from "../../../lib/event/mod.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const BLOCK = `
[profiles.rules.no-drop]
action = "block"
match = 'http.request.body.text.contains("drop table")'
`;
const BLOCK_ANSWER = `
[profiles.rules.no-answer]
action = "block"
match = 'http.response.body.text.contains("drop table")'
`;
const ATTACK = "drop table users";

const bytes = (text: string) => new TextEncoder().encode(text);
const join = (...parts: Uint8Array[]) => new Uint8Array(parts.flatMap((part) => [...part]));
const latin1 = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));
/** Bytes of a text in units of `size` bytes. */
const wide = (text: string, size: number, big = false) =>
  join(...Array.from(text, (char) => {
    const unit = new Uint8Array(size);
    unit[big ? size - 1 : 0] = char.charCodeAt(0);
    return unit;
  }));

/** Sends a body past rules. @returns the status of the answer, and whether the upstream got a request */
async function send(rules: string, body: Uint8Array, headers: string[], chunked = false) {
  let received = 0;
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    received++;
    await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
  });
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const client = await net.client();
  const framing = chunked ? "Transfer-Encoding: chunked" : `Content-Length: ${body.length}`;
  const head = [`POST /run HTTP/1.1`, `Host: ${HOST}`, framing, ...headers].join("\r\n");
  const sent = chunked ? join(bytes(`${body.length.toString(16)}\r\n`), body, bytes("\r\n0\r\n\r\n")) : body;
  await client.send(join(bytes(`${head}\r\n\r\n`), sent));
  const { status } = await client.answer();
  client.close();
  upstream.close();
  const decision = net.gate.entries.at(0)?.decision;
  return { status, received, rule: decision?.rule.id, entries: net.gate.entries };
}

Deno.test("no encoding hides a request's body from a rule that reads it", async (t) => {
  const text = bytes(ATTACK);
  const filled = new Uint8Array(70 * 1024).fill(65);
  // A gzip head with a name of 70 KiB: the payload begins behind the part that an event holds.
  const gzip = gzipSync(text);
  const named = join(
    gzip.subarray(0, 3),
    new Uint8Array([8]),
    gzip.subarray(4, 10),
    filled,
    new Uint8Array([0]),
  );
  const long = join(named, gzip.subarray(10));
  const cases: [name: string, body: Uint8Array, headers: string[], rule?: string][] = [
    ["as it is", text, []],
    ["one invalid byte", join(text, new Uint8Array([0xff])), []],
    ["a NUL byte", join(new Uint8Array([0]), text), []],
    ["an image by its type", join(text, new Uint8Array([0x89])), ["Content-Type: image/png"]],
    ["gzip in two fields", gzipSync(gzipSync(text)), ["Content-Encoding: gzip", "Content-Encoding: gzip"]],
    ["gzip, gzip", gzipSync(gzipSync(text)), ["Content-Encoding: gzip, gzip"]],
    ["identity, then gzip", gzipSync(text), ["Content-Encoding: identity", "Content-Encoding: gzip"]],
    ["br, gzip", gzipSync(brotliCompressSync(text)), ["Content-Encoding: br, gzip"]],
    ["deflate without its head", deflateRawSync(text), ["Content-Encoding: deflate"]],
    ["a second zstd frame", join(zstdCompressSync(bytes("x")), zstdCompressSync(text)), [
      "Content-Encoding: zstd",
    ]],
    ["an empty zstd frame first", join(latin1("\x50\x2a\x4d\x18\x01\0\0\0x"), zstdCompressSync(text)), [
      "Content-Encoding: zstd",
    ]],
    ["a long gzip head", long, ["Content-Encoding: gzip"]],
    ["five encodings", [1, 2, 3, 4, 5].reduce<Uint8Array>((body) => gzipSync(body), text), [
      "Content-Encoding: gzip, gzip, gzip, gzip, gzip",
    ], "guard-body"],
    ["an unknown encoding", text, ["Content-Encoding: pack"], "guard-body"],
    ["bytes after gzip", join(gzipSync(text), bytes("x")), ["Content-Encoding: gzip"], "guard-body"],
    [
      "gzip without its end",
      gzipSync(bytes(ATTACK.slice(0, 8))).subarray(0, 16),
      ["Content-Encoding: gzip"],
      "guard-body",
    ],
    ["UTF-16 with a mark", join(new Uint8Array([0xff, 0xfe]), wide(ATTACK, 2)), []],
    ["UTF-16 without", wide(ATTACK, 2, true), ["Content-Type: application/json"]],
    ["UTF-16 by its charset", wide(ATTACK, 2), ["Content-Type: text/plain; charset=utf-16le"]],
    ["UTF-32", wide(ATTACK, 4), []],
    ["a charset that is not so", text, ["Content-Type: text/plain; charset=utf-16"]],
    ["a byte that a charset joins to the next", join(latin1("\x81"), text), [
      "Content-Type: text/plain; charset=shift_jis",
    ]],
    ["UTF-7", bytes("+AGQ-rop table users"), ["Content-Type: text/plain; charset=utf-7"], "guard-body"],
    ["two charsets", text, ["Content-Type: text/plain; charset=utf-8; charset=utf-16"], "guard-body"],
    [
      "a part of a form",
      bytes(`--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n${ATTACK}\r\n--b--\r\n`),
      [
        "Content-Type: multipart/form-data; boundary=b",
      ],
    ],
  ];
  for (const [name, body, headers, rule = "no-drop"] of cases) {
    await t.step(name, async () => {
      const { status, received, rule: by } = await send(BLOCK, body, headers);
      assertEquals({ status, received, by }, { status: 403, received: 0, by: rule });
    });
  }
  await t.step("in one chunk", async () => {
    const { status, received } = await send(
      BLOCK,
      gzipSync(gzipSync(text)),
      ["Content-Encoding: gzip,gzip"],
      true,
    );
    assertEquals({ status, received }, { status: 403, received: 0 });
  });
});

Deno.test("bodies that rules can read pass, and a binary one is recorded without its text", async () => {
  const image = join(bytes("\x89PNG"), new Uint8Array([0, 0xff]));
  for (const encoding of ["gzip", "x-gzip, gzip", "aws-chunked"]) {
    const body = encoding.split(",").filter((name) => name.includes("gzip")).reduce<Uint8Array>(
      (inner) => gzipSync(inner),
      image,
    );
    const { status, received, entries } = await send(BLOCK, body, [`Content-Encoding: ${encoding}`]);
    assertEquals({ status, received }, { status: 200, received: 1 });
    const { state, text } = entries[0].event.http!.request.body;
    assertEquals({ state, text }, { state: "binary", text: undefined });
  }
  const unread = await send("", bytes(ATTACK), ["Content-Encoding: pack"]);
  assertEquals([unread.status, unread.received], [200, 1], "no rule reads bodies");
});

Deno.test("a rewrite of a body that is not UTF-8 sends nothing", async () => {
  const rules = `
[profiles.rules.redact]
action = "rewrite"
match = 'http.request.host == "${HOST}"'
rewrite = [{ op = "replace", path = "http.request.body.text", pattern = "drop", value = "keep" }]
`;
  for (
    const [body, headers] of [
      [join(bytes(ATTACK), new Uint8Array([0xff])), []],
      [wide(ATTACK, 2), ["Content-Type: text/plain; charset=utf-16le"]],
      [bytes(ATTACK), ["Content-Type: text/plain; charset=windows-1252"]],
    ] as [Uint8Array, string[]][]
  ) {
    const { received, entries } = await send(rules, body, headers);
    assertEquals(received, 0);
    assertStringIncludes(entries[0].outcome!.error!, "not UTF-8 text");
  }
});

Deno.test("no encoding hides a short response's body from a rule that reads it", async (t) => {
  const text = bytes(ATTACK);
  const cases: [name: string, body: Uint8Array, header: string, status?: number][] = [
    ["one invalid byte", join(text, new Uint8Array([0xff])), "content-type: application/octet-stream"],
    ["gzip, gzip", gzipSync(gzipSync(text)), "content-encoding: gzip\r\ncontent-encoding: gzip"],
    ["UTF-16", wide(ATTACK, 2), "content-type: text/plain; charset=utf-16le"],
    ["an unknown encoding", text, "content-encoding: pack", 502],
    ["five encodings", text, "content-encoding: gzip, gzip, gzip, gzip, gzip", 502],
    [
      "a binary body without the text",
      join(bytes("ok"), new Uint8Array([0])),
      "content-type: image/png",
      200,
    ],
  ];
  for (const [name, body, header, want = 403] of cases) {
    await t.step(name, async () => {
      const upstream = rawUpstream(async (client) => {
        await client.until("\r\n\r\n");
        const head = `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n${header}\r\n\r\n`;
        await client.send(join(bytes(head), body));
      });
      await using net = await TestNet.open({ rules: BLOCK_ANSWER, target: () => upstream.target });
      const client = await net.client();
      const { status } = await client.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
      client.close();
      upstream.close();
      assertEquals(status, want);
      await net.idle();
      const recorded = net.gate.entries[0].outcome?.response as HttpEvent["response"];
      assert(recorded?.body.state !== "binary" || recorded.body.text === undefined);
    });
  }
});
