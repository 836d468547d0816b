/** Heads of HTTP/1.1 messages and ClientHellos, built by hand: what is read, and what is refused. */
import { assertEquals, assertThrows } from "@std/assert";
import { MessageFault } from "../../../lib/network/fault.ts";
import { parseHello } from "../../../lib/network/guest/sniff.ts";
import { HEADERS_MAX, HELLO_MAX, METHOD_MAX } from "../../../lib/network/limit.ts";
import {
  checkFields,
  headEnd,
  isMethod,
  parseRequestHead,
  parseResponseHead,
  parseTrailers,
} from "../../../lib/network/message/head.ts";

import type { Header } from "../../../lib/network/message/header.ts";

const bytes = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));
const request = (text: string) => parseRequestHead(bytes(text));
const response = (text: string) => parseResponseHead(bytes(text));

Deno.test("a head ends behind its empty line, and every line ends in CRLF", () => {
  assertEquals(headEnd(bytes("GET / HTTP/1.1\r\na: b\r\n\r\nbody\r\n\r\n")), 24);
  assertEquals([headEnd(bytes("a\r\n\r")), headEnd(bytes("a\r\n")), headEnd(bytes(""))], [-1, -1, -1]);
  assertEquals([headEnd(bytes("\r\n\r\n")), headEnd(bytes("x\r\n\r\n"))], [4, 5]);
  for (const text of ["a\nb: c\r\n\r\n", "a\r\nb\n\n", "a\r\n\n", "\n"]) {
    assertThrows(() => headEnd(bytes(text)), MessageFault, "bare LF", JSON.stringify(text));
  }
});

Deno.test("requests: their line, and their fields as they came", () => {
  assertEquals(request("get /a?b=c HTTP/1.1\r\nHost: X\r\nx-a: \t1 2 \t\r\nx-b:\r\n\r\n"), {
    method: "GET",
    target: "/a?b=c",
    old: false,
    headers: [["host", "X"], ["x-a", "1 2"], ["x-b", ""]],
  });
  assertEquals(request("pUrGe /\xff HTTP/1.0\r\n\r\n"), {
    method: "pUrGe",
    target: "/%FF",
    old: true,
    headers: [],
  });
  const lines = (count: number) => `GET / HTTP/1.1\r\n${"a: b\r\n".repeat(count)}\r\n`;
  assertEquals(request(lines(HEADERS_MAX)).headers.length, HEADERS_MAX);
  const method = "M".repeat(METHOD_MAX);
  assertEquals(request(`${method} / HTTP/1.1\r\n\r\n`).method, method);
  for (
    const [text, why] of [
      [lines(HEADERS_MAX + 1), "header fields"],
      [`M${method} / HTTP/1.1\r\n\r\n`, "invalid method"],
      ["GE T / HTTP/1.1\r\n\r\n", "three parts"],
      ["GET /\r\n\r\n", "three parts"],
      ["G(T / HTTP/1.1\r\n\r\n", "invalid method"],
      ["GET  HTTP/1.1\r\n\r\n", "request target"],
      ["GET /\x7f HTTP/1.1\r\n\r\n", "request target"],
      ["GET /a#b HTTP/1.1\r\n\r\n", "fragment"],
      ["GET / HTTP/2.0\r\n\r\n", "version"],
      ["GET / HTTP/1.1\r\nno colon\r\n\r\n", ""],
      ["GET / HTTP/1.1\r\na : b\r\n\r\n", ""],
      ["GET / HTTP/1.1\r\n: b\r\n\r\n", ""],
      ["GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n", ""],
      ["GET / HTTP/1.1\r\na: b\x00c\r\n\r\n", "control characters"],
      ["GET / HTTP/1.1\r\na: b\rc\r\n\r\n", "control characters"],
    ]
  ) assertThrows(() => request(text), MessageFault, why, JSON.stringify(text.slice(0, 40)));
  assertEquals(["GET", "connect", "A B", "", method, `M${method}`].map(isMethod), [
    true,
    false,
    false,
    false,
    true,
    false,
  ]);
});

Deno.test("responses: their line, and folded fields as one", () => {
  assertEquals(response("HTTP/1.1 200 All right\r\nA: 1\r\n\t2\r\n  3\r\nb: 4\r\n\r\n"), {
    status: 200,
    reason: "All right",
    old: false,
    headers: [["a", "1 2 3"], ["b", "4"]],
  });
  assertEquals(response("HTTP/1.0 404\r\n\r\n"), { status: 404, reason: "", old: true, headers: [] });
  for (
    const line of [
      "HTTP/1.2 200 OK",
      "HTTP/1.1 099 x",
      "HTTP/1.1 2000",
      "HTTP/1.1 200OK",
      "HTTP/1.1 200 a\x00",
    ]
  ) {
    assertThrows(() => response(`${line}\r\n\r\n`), MessageFault, "status line", line);
  }
  // The first field has nothing before it to be folded to.
  assertThrows(() => response("HTTP/1.1 200 OK\r\n a: b\r\n\r\n"), MessageFault);
  assertEquals(parseTrailers(bytes("X: 1\r\ny: 2\r\n\r\n")), [["x", "1"], ["y", "2"]]);
});

Deno.test("fields of HTTP/2 are such that HTTP/1.1 can have them", () => {
  const many = (count: number) => Array.from({ length: count }, (): Header => ["x", "1"]);
  for (
    const fields of [[[":status", "200"], ["x-a!~", "\t\x80\xff"]] satisfies Header[], many(HEADERS_MAX)]
  ) {
    checkFields(fields);
  }
  const cases: [fields: Header[], why: string][] = [
    [[["X", "1"]], "invalid header field name"],
    [[["x y", "1"]], "invalid header field name"],
    [[["", "1"]], "invalid header field name"],
    [[["::x", "1"]], "invalid header field name"],
    [[["x", "a\r\nb"]], "control characters"],
    [[["x", "a\0"]], "control characters"],
    [[["x", "1"], ["y", "\n"]], "control characters"],
    [many(HEADERS_MAX + 1), "more than"],
  ];
  for (const [fields, why] of cases) assertThrows(() => checkFields(fields), MessageFault, why);
});

const u16 = (number: number) => [number >> 8, number & 255];
const sized = (data: number[]) => [...u16(data.length), ...data];
const serverName = (name: string, kind = 0) => [kind, ...sized([...bytes(name)])];
const extension = (type: number, data: number[]) => [...u16(type), ...sized(data)];

/** A ClientHello with these extensions, in one record; or without any. */
function hello(extensions?: number[], random = 32): Uint8Array {
  const body = [
    ...[3, 3, ...Array(random).fill(7), 2, 1, 1],
    ...[...sized([0x13, 1]), 1, 0],
    ...(extensions ? sized(extensions) : []),
  ];
  const message = [1, 0, ...u16(body.length), ...body];
  return new Uint8Array([22, 3, 1, ...u16(message.length), ...message]);
}

Deno.test("ClientHellos: the one server name, wherever it stands", () => {
  const name = extension(0, sized(serverName("API.example.com.")));
  assertEquals(parseHello(hello(name)), { name: "api.example.com" });
  assertEquals(parseHello(hello([...extension(16, [1, 2, 3]), ...name, ...extension(43, [])])), {
    name: "api.example.com",
  });
  assertEquals([parseHello(hello()), parseHello(hello([])), parseHello(hello(extension(5, [1])))], [
    {},
    {},
    {},
  ]);
  // What follows the message belongs to it no more.
  assertEquals(parseHello(new Uint8Array([...hello(name), 23, 3, 3, 0])), { name: "api.example.com" });
  for (
    const [what, extensions] of Object.entries({
      "two extensions": [...name, ...name],
      "two names in one": extension(0, sized([...serverName("a.test"), ...serverName("b.test")])),
      "bytes behind the list": extension(0, [...sized(serverName("a.test")), 0]),
      "another kind of name": extension(0, sized(serverName("a.test", 1))),
      "a list longer than its extension": extension(0, [0, 99, ...serverName("a.test")]),
      "an address in another spelling": extension(0, sized(serverName("0x7f.1"))),
      "no name": extension(0, sized(serverName(""))),
      "an extension that is cut off": [0, 0, 0, 9, 1],
    })
  ) assertThrows(() => parseHello(hello(extensions)), MessageFault, "", what);
});

Deno.test("ClientHellos: records that are no handshake, and messages that are too long", () => {
  const good = hello(extension(0, sized(serverName("a.test"))));
  const changed = (at: number, byte: number) => new Uint8Array(good).with(at, byte);
  for (
    const [bad, why] of [
      [changed(0, 21), "not a handshake"],
      [changed(1, 2), "not a handshake"],
      [changed(5, 2), "not a ClientHello"],
      [changed(6, 1), "longer than"],
      [new Uint8Array([22, 3, 1, 0, 0]), "record length"],
      [new Uint8Array([22, 3, 1, 0x40, 1]), "record length"],
      [
        new Uint8Array([22, 3, 1, 0, 1, 1, 22, 3, 1, 0, 2, 0, 0, 22, 3, 1, 0, 1, 1, 23, 3, 1, 0, 1, 0]),
        "not a handshake",
      ],
    ] as const
  ) assertThrows(() => parseHello(bad), MessageFault, why);
  assertEquals(parseHello(new Uint8Array([22, 3, 1, 0x40, 0])), undefined);
  const message = (length: number) => {
    const record = [22, 3, 1, 0x40, 0, 1, 0, ...u16(length - 4), ...Array(16380).fill(0)];
    return new Uint8Array(record);
  };
  assertEquals(parseHello(message(HELLO_MAX)), undefined);
  assertThrows(() => parseHello(message(HELLO_MAX + 1)), MessageFault, "longer than");
  const slow = new Uint8Array(HELLO_MAX + 1);
  for (let at = 0; at < slow.length; at += 6) {
    slow.set([22, 3, 1, 0, 1, at === 0 ? 1 : 0].slice(0, slow.length - at), at);
  }
  assertThrows(() => parseHello(slow), MessageFault);
});
