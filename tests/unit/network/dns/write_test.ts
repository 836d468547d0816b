/** Packets to guests and resolvers: what fits, what is cut, what is said instead. */
import { assert, assertEquals } from "@std/assert";
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { ANSWER_BYTES_MAX, ERROR_TEXT_MAX, RESOLVER_UDP_BYTES } from "../../../../lib/network/dns/limit.ts";
import { writeQuery, writeRefusal, writeReply } from "../../../../lib/network/dns/packet.ts";
import { ask, read } from "../../../helper/resolver.ts";
import type { Parsed } from "../../../helper/json.ts";

const QUERY = { id: 7, flags: packet.RECURSION_DESIRED, name: "a.test", type: "TXT", udpBytes: 512 };
/** Records of about 260 `bytes` each. */
const texts = (count: number) =>
  Array.from({ length: count }, () => ({ name: "a.test", type: "TXT", ttl: 60, data: ["x".repeat(240)] }));

Deno.test("an answer longer than the client's UDP is truncated: no record, the same rcode, and TC", () => {
  const short = read(writeReply(QUERY, { rcode: "NOERROR", records: texts(1) }, "udp"));
  assertEquals([short.flag_tc, short.answers.length, short.rcode], [false, 1, "NOERROR"]);
  const long = writeReply(QUERY, { rcode: "NOERROR", records: texts(3) }, "udp");
  const answer = read(long);
  assertEquals([answer.flag_tc, answer.answers.length, answer.rcode], [true, 0, "NOERROR"]);
  assertEquals([answer.id, answer.flag_ra, answer.flag_rd, answer.questions[0].name], [
    7,
    true,
    true,
    "a.test",
  ]);
  assert(long.length <= 512);
  const failed = read(writeReply(QUERY, { rcode: "NXDOMAIN", records: texts(3) }, "udp"));
  assertEquals(failed.rcode, "NXDOMAIN");
});

Deno.test("a UDP answer of exactly the client's size is sent whole", () => {
  const whole = writeReply({ ...QUERY, udpBytes: 4096 }, { rcode: "NOERROR", records: texts(3) }, "udp");
  const exact = writeReply(
    { ...QUERY, udpBytes: whole.length },
    { rcode: "NOERROR", records: texts(3) },
    "udp",
  );
  assertEquals(read(exact).answers.length, 3);
  const over = writeReply(
    { ...QUERY, udpBytes: whole.length - 1 },
    { rcode: "NOERROR", records: texts(3) },
    "udp",
  );
  assertEquals([read(over).answers.length, read(over).flag_tc], [0, true]);
});

Deno.test("TCP takes what UDP does not, and SERVFAIL where even its length does not suffice", () => {
  const whole = read(writeReply(QUERY, { rcode: "NOERROR", records: texts(200) }, "tcp"));
  assertEquals([whole.rcode, whole.answers.length, whole.flag_tc], ["NOERROR", 200, false]);
  const tooLong = writeReply(QUERY, { rcode: "NOERROR", records: texts(300) }, "tcp");
  const answer = read(tooLong);
  assertEquals([answer.rcode, answer.answers.length, answer.flag_tc], ["SERVFAIL", 0, false]);
  assert(tooLong.length < ANSWER_BYTES_MAX);
});

Deno.test("the text of an error is one line, and cut between characters", () => {
  const text = (error: string) =>
    read(writeReply(QUERY, { rcode: "REFUSED", error: { code: 18, text: error } }, "udp")).error;
  assertEquals(text("one\r\n two\x7f\x00three"), { code: 18, text: "one  two three" });
  assertEquals(text("x".repeat(500)).text, "x".repeat(ERROR_TEXT_MAX));
  assertEquals(text("x".repeat(ERROR_TEXT_MAX)).text, "x".repeat(ERROR_TEXT_MAX));
  assertEquals(text("x".repeat(ERROR_TEXT_MAX - 1) + "\u00fc").text, "x".repeat(ERROR_TEXT_MAX - 1));
  assertEquals(text("x".repeat(ERROR_TEXT_MAX - 2) + "\u{1f600}").text, "x".repeat(ERROR_TEXT_MAX - 2));
});

Deno.test("a refusal has the id and the question of the query, as far as they can be read", () => {
  const whole = read(writeRefusal(ask("a.test", "AAAA"), "FORMERR", "why", 0));
  assertEquals([whole.id, whole.rcode, whole.questions[0].name, whole.questions[0].type], [
    4242,
    "FORMERR",
    "a.test",
    "AAAA",
  ]);
  assertEquals([whole.error, whole.flag_rd], [{ code: 0, text: "why" }, false]);
  for (const [bytes, id] of [[[], 0], [[1], 0], [[1, 2], 0x102], [[1, 2, 3], 0x102]] as const) {
    const cut = read(writeRefusal(new Uint8Array(bytes), "FORMERR", "why", 0));
    assertEquals([cut.id, cut.questions.length, cut.rcode], [id, 0, "FORMERR"]);
  }
});

Deno.test("a query for a resolver asks for recursion and large answers, with one question", () => {
  // The package has no types for OPT.
  const query: Parsed = packet.decode(Buffer.from(writeQuery(513, { name: "a.test", type: "AAAA" })));
  assertEquals([query.id, query.type, query.flag_rd, query.questions.length], [513, "query", true, 1]);
  assertEquals([query.questions[0].name, query.questions[0].type, query.questions[0].class], [
    "a.test",
    "AAAA",
    "IN",
  ]);
  assertEquals(query.additionals[0].udpPayloadSize, RESOLVER_UDP_BYTES);
});

Deno.test("addresses are encoded as the library encodes them, and refer to the name of the question", () => {
  const records = (type: string, data: string[], name = QUERY.name) =>
    data.map((each, at) => ({ name, type, ttl: 60 + at, data: each }));
  const v4 = ["8.8.4.4", "255.0.0.1", "0.0.0.0"];
  const v6 = ["2001:db8::1", "::", "fe80::1:2:3:4"];
  const cases: [type: string, records: ReturnType<typeof records>, referring?: true][] = [
    ["A", records("A", v4), true],
    ["A", records("A", ["8.8.4.4"], QUERY.name.toUpperCase()), true],
    ["AAAA", records("AAAA", v6), true],
    ["A", records("A", v4, "other.test")],
    ["A", [...records("CNAME", ["b.test"]), ...records("A", v4, "b.test")]],
  ];
  for (const [type, answers, referring = false] of cases) {
    const query = { ...QUERY, type };
    const bytes = writeReply(query, { rcode: "NOERROR", records: answers }, "udp");
    const written = packet.decode(Buffer.from(bytes));
    const expected = packet.decode(Buffer.from(packet.encode({
      type: "response",
      id: QUERY.id,
      flags: QUERY.flags | packet.RECURSION_AVAILABLE,
      questions: [{ name: QUERY.name, type, class: "IN" }],
      answers: answers.map((answer) => ({ ...answer, class: "IN" })),
    })));
    assertEquals(bytes.includes(0xc0), referring);
    const plain = (all: { name: string }[]) =>
      all.map((each) => ({ ...each, name: each.name.toLowerCase() }));
    assertEquals({ ...written, answers: plain(written.answers) }, {
      ...expected,
      answers: plain(expected.answers),
    });
  }
});
