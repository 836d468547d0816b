/** Parsers of the network: first bytes, ClientHellos, hosts, bodies and headers of events. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { gzipSync } from "node:zlib";
import { parseAuthority } from "../../../lib/network/exchange/request.ts";
import { MessageFault } from "../../../lib/network/fault.ts";
import { parseHello, sniff } from "../../../lib/network/guest/sniff.ts";
import { type BodyKind, BodyRecorder } from "../../../lib/network/message/text.ts";
import { eventHeaders } from "../../../lib/network/message/header.ts";

const bytes = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** The ClientHello of a real client. */
export async function realHello(hostname: string): Promise<Uint8Array> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const tcp = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  const conn = await listener.accept();
  const tls = await Deno.startTls(tcp, { hostname, alpnProtocols: ["h2", "http/1.1"] });
  const handshake = tls.handshake().catch(() => {});
  const buffer = new Uint8Array(8192);
  const hello = buffer.slice(0, await conn.read(buffer) ?? 0);
  conn.close();
  listener.close();
  await handshake;
  tls.close();
  return hello;
}

Deno.test("first bytes identify the protocol of a client", async (t) => {
  const cases: [first: string, speech: string][] = [
    ["", "more"],
    ["\x16", "more"],
    ["\x16\x03\x01", "tls"],
    ["\x16\x02", "other"],
    ["G", "more"],
    ["GET /", "more"],
    ["GET / HTTP/1.1\r\n", "http"],
    ["\r\nGET / HTTP/1.1\r\n", "http"],
    ["get / HTTP/1.1\n", "http"],
    ["GET /a b HTTP/9\r\n", "http"],
    ["PRI * HTTP/2.0\r\n", "http"],
    ["SSH-2.0-OpenSSH\r\n", "other"],
    ["EHLO example.com\r\n", "other"],
    ["PING\r\n", "other"],
    ["*1\r\n$4\r\nPING\r\n", "other"],
    ["\x00\x00\x00\x08\x04\xd2\x16\x2f", "other"],
    ["\r\n\r\n\r\n\r\n\r\n", "http"],
    ["\x15\x03\x01\x00\x02", "tls"],
    ["\x80\x2e\x01\x03\x01", "tls"],
    ["\x80\x00\x00\x06\x00", "other"],
    ["GET\t/ HTTP/1.1\r\n", "http"],
    [" GET / HTTP/1.1\r\n", "http"],
    ["GET / http/1.1\r\n", "http"],
    ["GET /\r\n", "http"],
    ["GET key\r\n", "http"],
    ["get key\r\n", "http"],
    ["NICK me\r\nUSER me 0 * :me\r\n", "other"],
    ["EHLO a\r\n\r\n", "http"],
    ["\0\0\0\x20\0\x03\0\0user\0a\0database\0/a\0\0", "other"],
    ["0032git-upload-pack /project.git\0host=example.com\0", "other"],
    ["PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "http"],
    ["x\nGET / HTTP/1.1\r\n", "http"],
    ["SSH-2.0-x\r\nGET / HTTP/1.1\r\n", "http"],
    ['{"id": 1}', "other"],
    ["A".repeat(33), "other"],
    ["GET " + "a".repeat(70_000), "http"],
  ];
  for (const [first, speech] of cases) {
    await t.step(
      JSON.stringify(first.slice(0, 30)),
      () => assertEquals(sniff(bytes(first)), speech as never),
    );
  }
});

Deno.test("the server name of a ClientHello is found, however the bytes are cut", async () => {
  const hello = await realHello("API.Example.com");
  for (let count = 0; count < hello.length; count++) {
    assertEquals(parseHello(hello.subarray(0, count)), undefined, `${count} bytes`);
  }
  assertEquals(parseHello(hello), { name: "api.example.com" });
  // The same message in records of one byte each (RFC 8446 §5.1).
  const message = hello.subarray(5);
  const records = Uint8Array.from([...message].flatMap((byte) => [22, 3, 1, 0, 1, byte]));
  assertEquals(parseHello(records), { name: "api.example.com" });
  assertEquals(parseHello(await realHello("203.0.113.7")), {});
});

Deno.test("invalid ClientHellos are refused", async (t) => {
  const hello = await realHello("api.example.com");
  const at = (from: string) => new TextDecoder("latin1").decode(hello).indexOf(from);
  const changed = (change: (copy: Uint8Array) => void) => {
    const copy = hello.slice();
    change(copy);
    return copy;
  };
  const name = at("api.example.com");
  const cases: [name: string, hello: Uint8Array][] = [
    ["no handshake", changed((copy) => copy[0] = 23)],
    ["a record without length", changed((copy) => copy[3] = copy[4] = 0)],
    ["a record that is too long", changed((copy) => copy[3] = 0xff)],
    ["a message that is too long", changed((copy) => copy[6] = 1)],
    ["another message", changed((copy) => copy[5] = 2)],
    ["a session id longer than the message", changed((copy) => copy[43] = 255)],
    ["a name longer than its list", changed((copy) => copy[name - 1] = 200)],
    ["a name of another kind", changed((copy) => copy[name - 3] = 1)],
    ["a name with a slash", changed((copy) => copy[name] = 47)],
    ["a name with NUL", changed((copy) => copy[name + 3] = 0)],
  ];
  for (const [name, bad] of cases) {
    await t.step(name, () => void assertThrows(() => parseHello(bad), MessageFault));
  }
});

Deno.test("hosts are parsed strictly", async (t) => {
  const cases: [text: string, host?: string, port?: number][] = [
    ["example.com", "example.com"],
    ["EXAMPLE.com.:8080", "example.com", 8080],
    ["[2001:DB8::1]:443", "2001:db8::1", 443],
    ["203.0.113.7:1", "203.0.113.7", 1],
    ["a_b.example.com", "a_b.example.com"],
    ["example.com:99999"],
    ["example.com:"],
    ["exa mple.com"],
    ["user@example.com"],
    ["exämple.com"],
    ["a..b"],
    ["-a.com"],
    ["[::1"],
    ["::1"],
    ["[zz]"],
    ["a/b"],
    ["a".repeat(254)],
    [""],
  ];
  for (const [text, host, port] of cases) {
    await t.step(JSON.stringify(text.slice(0, 30)), () => {
      assertEquals(
        parseAuthority(text),
        host === undefined ? undefined : port === undefined ? { host } : { host, port },
      );
    });
  }
});

Deno.test("the event of a body holds its text", async (t) => {
  const kind = (content_type?: string, content_encoding?: string) => ({
    ...(content_type && { content_type }),
    ...(content_encoding && { content_encoding }),
    scrub: (text: string) => text.replaceAll("hunter2", "[ref]"),
  });
  const cases: [name: string, body: Uint8Array, kind: BodyKind, want: object][] = [
    ["nothing", bytes(""), kind(), { state: "missing", truncated: false, size: 0 }],
    ["text without a type", bytes("hi hunter2"), kind(), {
      state: "text",
      text: "hi [ref]",
      truncated: false,
    }],
    ["bytes without a type", bytes("hi\0"), kind(), { state: "binary", truncated: false, size: 3 }],
    ["bytes with a text type", bytes("\xff"), kind("text/plain"), { state: "text", text: "\ufffd" }],
    ["an image", bytes("\x89PNG\0"), kind("image/png"), { state: "binary" }],
    ["a character in the middle of the cut", bytes("a".repeat(65535) + "\xc3\xbc"), kind(), {
      state: "text",
      truncated: true,
    }],
    ["gzip", gzipSync("hunter2"), kind("text/plain", "gzip"), {
      state: "text",
      text: "[ref]",
      truncated: false,
    }],
    ["damaged gzip", bytes("no gzip"), kind("text/plain", "gzip"), { state: "binary", text: undefined }],
    ["gzip twice", gzipSync(gzipSync("hi")), kind("text/plain", "gzip,gzip"), { state: "text", text: "hi" }],
    ["text in its charset", bytes("h\xef"), kind("text/plain; charset=latin1"), {
      state: "text",
      text: "hï",
    }],
    ["bytes that rules read", bytes("\0hi hunter2"), { ...kind(), forRules: true }, {
      state: "binary",
      text: "\0hi [ref]\nhi [ref]",
    }],
    ["an unknown encoding", bytes("?"), kind("text/plain", "pack"), { state: "binary" }],
    ["a failing broker", bytes("x"), {
      scrub: () => {
        throw new Error();
      },
    }, { state: "redacted" }],
  ];
  for (const [name, body, kind, want] of cases) {
    await t.step(name, async () => {
      const recorder = new BodyRecorder();
      for (let at = 0; at < body.length; at += 1000) recorder.add(body.subarray(at, at + 1000));
      const got = await recorder.record(kind);
      for (const [key, value] of Object.entries(want)) {
        assertEquals(got[key as "size"], value, JSON.stringify(got).slice(0, 200));
      }
      assert(got.size === body.length && (got.text?.length ?? 0) <= 65536);
    });
  }
});

Deno.test("event headers redact sensitive fields, and list each name once", () => {
  const headers = eventHeaders([
    ["accept", "a"],
    ["accept", "b"],
    ["authorization", "Bearer abc"],
    ["cookie", "a=b"],
    ["x-csrf-token", "t"],
    ["x-api-key", `credential:blake3:${"0".repeat(64)}`],
    ["__proto__", "x"],
    ["x-text", "\xc3\xbc"],
  ]);
  assertEquals({ ...headers }, {
    accept: ["a", "b"],
    authorization: ["Bearer [redacted]"],
    cookie: ["[redacted]"],
    "x-csrf-token": ["[redacted]"],
    "x-api-key": [`credential:blake3:${"0".repeat(64)}`],
    ["__proto__"]: ["x"],
    "x-text": ["ü"],
  });
});
