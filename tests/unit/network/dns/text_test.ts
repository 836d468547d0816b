/** Texts of answers in events: what a rule and a person read of each type. */
import { assert, assertEquals } from "@std/assert";
import { isName } from "../../../../lib/network/dns/packet.ts";
import { ANSWER_TEXT_MAX } from "../../../../lib/network/dns/limit.ts";
import { answerText } from "../../../../lib/network/dns/service.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("a name that can be queried has labels of 63 bytes at most, and 253 bytes with their dots", () => {
  const name = (...sizes: number[]) => sizes.map((size) => "x".repeat(size)).join(".");
  for (const good of ["a", "a.test", "A.Test.", "!~", name(63), name(63, 63, 63, 61)]) {
    assert(isName(good), good);
  }
  const bad = ["", ".", "a..b", ".a", "a b", "a\\b", "a\x7f", name(64), name(63, 63, 63, 62)];
  for (const each of bad) assert(!isName(each), each);
});

Deno.test("every type of answer has its text: addresses and names in their one spelling", () => {
  const cases: [type: string, data: unknown, text: string][] = [
    ["A", "8.8.4.4", "8.8.4.4"],
    ["AAAA", "2001:0DB8::0001", "2001:db8::1"],
    ["CNAME", "B.Test.", "b.test"],
    ["NS", "NS.test", "ns.test"],
    ["PTR", "Host.Test", "host.test"],
    ["MX", { preference: 10, exchange: "Mail.Test" }, "mail.test"],
    ["SRV", { priority: 1, weight: 1, port: 443, target: "Srv.Test" }, "srv.test"],
    ["SOA", { mname: "Ns.Test", rname: "ann.test" }, "ns.test"],
    ["NAPTR", { replacement: "Sip.Test" }, "sip.test"],
    ["CAA", { tag: "issue", value: "ca.test" }, "issue ca.test"],
    ["TXT", [bytes("one "), bytes("two")], "one two"],
  ];
  for (const [type, data, text] of cases) {
    assertEquals(answerText({ name: "a.test", type, ttl: 60, data } as never), text, type);
  }
  const long = answerText({ name: "a.test", type: "TXT", ttl: 60, data: [bytes("x".repeat(5000))] } as never);
  assertEquals(long.slice(0, ANSWER_TEXT_MAX - 1), "x".repeat(ANSWER_TEXT_MAX - 1));
  assertEquals(long.length <= ANSWER_TEXT_MAX, true);
});
