/** Heads as rules changed them: what is sent, and what cannot be. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { rewriteHead } from "../../../lib/network/exchange/draft.ts";
import { ClientBody } from "../../../lib/network/exchange/body_buffer.ts";
import { FilteredBody } from "../../../lib/network/exchange/filtered_body.ts";
import { WholeBody } from "../../../lib/network/message/body.ts";
import { httpRequest } from "../../helper/event.ts";

const HEAD = {
  method: "GET",
  target: "/a%7Eb?x=%41",
  headers: [["accept", "*/*"], ["x-a", "1"]] as [string, string][],
};
const BEFORE = httpRequest({
  method: "GET",
  path: "/a~b",
  query: "x=%41",
  headers: { accept: ["*/*"], "x-a": ["1"] },
});
const rewrite = (after: Partial<typeof BEFORE>) => rewriteHead(HEAD, BEFORE, { ...BEFORE, ...after });

Deno.test("what no rule changed is sent as it came", () => {
  assertEquals(rewrite({}), HEAD);
  assertEquals(rewrite({ headers: { ...BEFORE.headers } }), HEAD);
});

Deno.test("a changed method, path, query and header is sent as the rule wrote it", () => {
  assertEquals(rewrite({ method: "POST" }).method, "POST");
  assertEquals(rewrite({ path: "/other" }).target, "/other?x=%41");
  assertEquals(rewrite({ query: "" }).target, "/a~b");
  assertEquals(rewrite({ query: "y=2" }).target, "/a~b?y=2");
  assertEquals(rewrite({ headers: { accept: ["*/*"], "x-b": ["gr\u00fcn", "2"] } }).headers, [
    ["accept", "*/*"],
    ["x-b", "gr\u00c3\u00bcn"],
    ["x-b", "2"],
  ]);
  // The connection to the upstream writes these itself.
  assertEquals(rewrite({ headers: { host: ["evil.example"], upgrade: ["x"], "x-a": ["1"] } }).headers, [[
    "x-a",
    "1",
  ]]);
});

Deno.test("a rewrite to a request that two readers could read differently is refused", () => {
  for (
    const after of [
      { method: "GET /x" },
      { method: "" },
      { path: "no slash" },
      { path: "/a b" },
      { path: "/a/../b" },
      { path: "/%61dmin" },
      { query: "a b" },
      { headers: { "x-a": ["1\r\nx-b: 2"] } },
      { headers: { "x-a": ["\x00"] } },
    ]
  ) {
    const error = assertThrows(() => rewrite(after), SbxError, undefined, JSON.stringify(after));
    assertEquals(error.code, "policy.rewrite.invalid");
  }
});

Deno.test("a body behind a filter is ready when its own is, and ends with what the filter kept back", async () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  const whole = new WholeBody(encode("abc"), [["x", "1"]]);
  const body = new FilteredBody(whole, {
    keepsLength: false,
    searching: false,
    substitutions: [],
    push: (bytes) => bytes.slice(0, 1),
    end: () => encode("rest"),
  });
  assertEquals([body.length, body.ready, body.done, body.trailers], [undefined, true, false, [["x", "1"]]]);
  const pieces = [await body.read(), await body.read(), await body.read()].map((piece) =>
    piece && new TextDecoder().decode(piece)
  );
  assertEquals(pieces, ["a", "rest", null]);
  assertEquals([body.ready, body.done], [false, true]);
});

Deno.test("the end of a request's body is told once, after its last piece was used", async () => {
  const ends: boolean[] = [];
  const whole = new WholeBody(new TextEncoder().encode("abc"));
  const body = new ClientBody(whole, () => ends.push(whole.done));
  assertEquals((await body.read())?.length, 3);
  assertEquals(ends, []);
  assertEquals([await body.read(), await body.read()], [null, null]);
  assertEquals(ends, [true]);
});
