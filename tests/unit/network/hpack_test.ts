/** Header compression of HTTP/2 (RFC 7541). */
import { assertEquals, assertThrows } from "@std/assert";
import { MessageFault } from "../../../lib/network/fault.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { encodeHeaders, HeaderDecoder } from "../../../lib/network/http2/hpack.ts";

const hex = (text: string) => Uint8Array.fromHex(text.replaceAll(" ", ""));

Deno.test("the header blocks of RFC 7541 Appendix C are decoded, with their tables", () => {
  const requests = new HeaderDecoder();
  const get: Header[] = [[":method", "GET"], [":scheme", "http"], [":path", "/"], [
    ":authority",
    "www.example.com",
  ]];
  assertEquals(requests.decode(hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff")), get);
  assertEquals(requests.decode(hex("8286 84be 5886 a8eb 1064 9cbf")), [...get, [
    "cache-control",
    "no-cache",
  ]]);
  assertEquals(requests.decode(hex("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf")), [
    [":method", "GET"],
    [":scheme", "https"],
    [":path", "/index.html"],
    [":authority", "www.example.com"],
    ["custom-key", "custom-value"],
  ]);
});

Deno.test("encoded headers of any length decode to the same", () => {
  const headers: Header[] = [
    [":method", "GET"],
    [":path", `/${"p".repeat(300)}`],
    ["x-new", "ÿ\t "],
    ["cookie", ""],
    ["x-long", "v".repeat(20_000)],
  ];
  assertEquals(new HeaderDecoder().decode(encodeHeaders(headers)), headers);
});

Deno.test("a known field takes its index, and a known name the index of its first field", () => {
  assertEquals(encodeHeaders([[":method", "GET"]]).toHex(), "82");
  assertEquals(encodeHeaders([[":method", "PUT"]]).toHex(), `1203${new TextEncoder().encode("PUT").toHex()}`);
  assertEquals(encodeHeaders([["x", "y"]]).toHex(), "1001780179");
});

Deno.test("invalid header blocks are refused", async (t) => {
  const cases: [name: string, block: string][] = [
    ["an unused index", "ff80 01"],
    ["index zero", "80"],
    ["an endless number", "ffff ffff ffff ffff 7f"],
    ["text longer than the block", "4085 6161"],
    ["a value longer than the block", "4001 6105 62"],
    ["a block that ends in a number", "ff"],
    ["invalid padding", "4081 1c 0161"],
    ["EOS within", "4084 ffff ffff 0161"],
    ["a table larger than allowed", "3fe2 3f"],
    ["a table size after a field", "8220"],
  ];
  for (const [name, block] of cases) {
    await t.step(name, () => void assertThrows(() => new HeaderDecoder().decode(hex(block)), MessageFault));
  }
});

Deno.test("a few bytes that expand to many headers are refused", () => {
  const decoder = new HeaderDecoder();
  decoder.decode(encodeIndexed("a", "b".repeat(4000)));
  assertThrows(() => decoder.decode(new Uint8Array(1000).fill(0xbe)), MessageFault, "too long");
});

/** A field that is added to the table. */
function encodeIndexed(name: string, value: string): Uint8Array {
  const block = encodeHeaders([[name, value]]);
  block[0] = 0x40;
  return block;
}
