/** Packets from guests and resolvers, byte by byte: what is read, and what is refused. */
import { assertEquals, assertThrows } from "@std/assert";
import { PacketError, walkPacket, walkQuestion } from "../../../../lib/network/dns/guard.ts";
import { CHAIN_MAX, RECORDS_MAX } from "../../../../lib/network/dns/limit.ts";
import { readAnswer, readQuery, readQuestion } from "../../../../lib/network/dns/packet.ts";
import { ask } from "../../../helper/resolver.ts";

const u16 = (...numbers: number[]) => numbers.flatMap((number) => [number >> 8 & 255, number & 255]);
const label = (text: string) => [text.length, ...new TextEncoder().encode(text)];
const NAME = [...label("a"), ...label("test"), 0];
/** Offset of the question's name. */
const QNAME = 12;
const pointer = (to: number) => u16(0xc000 | to);

interface Parts {
  flags?: number;
  counts?: number[];
  question?: number[];
  records?: number[];
}

/** A packet of one question and the given records; every number may be another. */
function packetOf({ flags = 0x8180, counts = [1, 1, 0, 0], question, records = [] }: Parts): Uint8Array {
  return new Uint8Array([...u16(7, flags, ...counts), ...(question ?? [...NAME, ...u16(1, 1)]), ...records]);
}

const record = (type: number, data: number[], name = pointer(QNAME), size = data.length) => [
  ...name,
  ...u16(type, 1, 0, 60, size),
  ...data,
];

Deno.test("a packet's parts are found where they are", () => {
  const bytes = packetOf({
    counts: [1, 2, 1, 1],
    records: [
      ...record(1, [8, 8, 4, 4]),
      ...record(28, Array(16).fill(1)),
      ...record(2, pointer(QNAME)),
      ...record(41, [], [0]),
    ],
  });
  const shape = walkPacket(bytes);
  assertEquals([shape.id, shape.flags, shape.question, shape.questionEnd, shape.qclass], [
    7,
    0x8180,
    12,
    24,
    1,
  ]);
  assertEquals(
    [shape.answers, shape.authorities, shape.additionals].map((list) => list.map(({ type }) => type)),
    [
      [1, 28],
      [2],
      [41],
    ],
  );
  const [{ start, data, end, ttl }] = shape.answers;
  assertEquals([start, data, end, ttl, shape.answers[0].class], [24, 36, 40, 60, 1]);
  for (let count = 0; count < bytes.length; count++) {
    assertThrows(() => walkPacket(bytes.subarray(0, count)), PacketError, "", `${count} bytes`);
  }
  assertThrows(() => walkPacket(new Uint8Array([...bytes, 0])), PacketError, "after the last record");
  assertThrows(() => walkQuestion(bytes, bytes.length - 1), PacketError, "more than");
  assertEquals(walkQuestion(bytes, bytes.length).questionEnd, 24);
});

Deno.test("data of records has exactly the length of its type", () => {
  const soa = [...NAME, ...pointer(QNAME), ...Array(20).fill(0)];
  const dotted = [...NAME, ...label("first.last"), ...pointer(QNAME), ...Array(20).fill(0)];
  const right: [number, number[]][] = [
    [1, [1, 2, 3, 4]],
    [28, Array(16).fill(0)],
    [2, NAME],
    [5, pointer(QNAME)],
    [12, [0]],
    [15, [0, 1, ...NAME]],
    [33, [0, 1, 0, 2, 0, 3, ...NAME]],
    [6, soa],
    [6, dotted],
    [16, label("text")],
    [16, [...label("text"), ...label("more")]],
    [16, [0]],
    [99, []],
    [99, [1, 2, 3]],
  ];
  for (const [type, data] of right) {
    assertEquals(walkPacket(packetOf({ records: record(type, data) })).answers[0].type, type);
    if (type === 99) continue;
    const longer = packetOf({ records: record(type, [...data, 1]) });
    assertThrows(() => walkPacket(longer), PacketError, "", `${type} with a byte more`);
    const shorter = packetOf({ records: record(type, data.slice(0, -1)) });
    assertThrows(() => walkPacket(shorter), PacketError, "", `${type} with a byte less`);
  }
  assertThrows(() => walkPacket(packetOf({ records: record(16, []) })), PacketError, "invalid data");
  assertThrows(() => walkPacket(packetOf({ records: record(5, []) })), PacketError, "invalid data");
  assertThrows(() => walkPacket(packetOf({ records: record(99, [1], undefined, 2) })), PacketError, "longer");
});

Deno.test("names: labels, pointers that lead back, and limits that are themselves allowed", () => {
  const question = (name: number[]) => () =>
    walkQuestion(packetOf({ question: [...name, ...u16(1, 1)], counts: [1, 0, 0, 0] }));
  const long = (last: number) => [63, 63, 63, last].flatMap((size) => label("x".repeat(size))).concat(0);
  assertEquals(question([0])().questionEnd, QNAME + 5);
  assertEquals(question([...label("x".repeat(63)), 0])().questionEnd, QNAME + 69);
  assertEquals(question(long(61))().questionEnd, QNAME + 255 + 4);
  assertEquals(question([...label("!~"), 0])().questionEnd, QNAME + 8);
  const bad: [number[], string][] = [
    [long(62), "longer than 255"],
    [[64, ...Array(64).fill(97), 0], "invalid label length"],
    [[0x80, 0], "invalid label length"],
    [label("a.b"), "invalid characters"],
    [label("a b"), "invalid characters"],
    [label("a\\b"), "invalid characters"],
    [label("a\x7f"), "invalid characters"],
    [[5, 97], "truncated"],
    [label("abc"), "truncated"],
    [[0xc0], "truncated pointer"],
    [pointer(QNAME), "does not lead back"],
    [pointer(0), "does not lead back"],
    [pointer(QNAME + 40), "does not lead back"],
  ];
  for (const [name, why] of bad) {
    const bytes = packetOf({ question: name, counts: [1, 0, 0, 0] });
    assertThrows(() => walkQuestion(bytes), PacketError, why, `${name}`);
  }
  // A record whose name is a chain of pointers, each to the one before.
  const chain = (jumps: number) => {
    const records = record(99, []);
    const first = 24;
    for (let at = 1; at < jumps; at++) records.push(...record(99, [], pointer(first + 12 * (at - 1))));
    return packetOf({ counts: [1, jumps, 0, 0], records });
  };
  assertEquals(walkPacket(chain(CHAIN_MAX)).answers.length, CHAIN_MAX);
  assertThrows(() => walkPacket(chain(CHAIN_MAX + 1)), PacketError, "too many pointers");
});

Deno.test("questions and records are counted", () => {
  for (const questions of [0, 2]) {
    assertThrows(
      () => walkQuestion(packetOf({ counts: [questions, 0, 0, 0] })),
      PacketError,
      "instead of one",
    );
  }
  const many = (count: number) =>
    packetOf({
      counts: [1, count - 2, 1, 1],
      records: Array.from({ length: count }, () => record(99, [])).flat(),
    });
  assertEquals(walkPacket(many(RECORDS_MAX)).answers.length, RECORDS_MAX - 2);
  assertThrows(() => walkPacket(many(RECORDS_MAX + 1)), PacketError, "more than");
});

Deno.test("queries: one question, nothing answered, and a size for UDP within limits", () => {
  const query = readQuery(ask("A.test", "AAAA"));
  assertEquals(query, { id: 4242, flags: 0x100, name: "A.test", type: "AAAA", udpBytes: 512 });
  const withOpt = (size: number, flags = 0x0110) =>
    packetOf({ flags, counts: [1, 0, 0, 1], records: [0, ...u16(41, size, 0, 0, 0)] });
  assertEquals([1, 512, 1232, 4096, 9000].map((size) => readQuery(withOpt(size)).udpBytes), [
    512,
    512,
    1232,
    4096,
    4096,
  ]);
  assertEquals(readQuery(withOpt(512)).flags, 0x0110);
  assertEquals(readQuery(withOpt(512, 0x0220)).flags, 0);
  for (
    const [parts, why] of [
      [{ flags: 0x8000, counts: [1, 0, 0, 0] }, "an answer instead"],
      [{ flags: 0x0800, counts: [1, 0, 0, 0] }, "opcode"],
      [{ flags: 0x4000, counts: [1, 0, 0, 0] }, "opcode"],
      [{ flags: 0, records: record(1, [1, 2, 3, 4]) }, "answers in a query"],
      [{ flags: 0, counts: [1, 0, 1, 0], records: record(1, [1, 2, 3, 4]) }, "answers in a query"],
      [{ flags: 0, counts: [1, 0, 0, 0], question: [...NAME, ...u16(1, 3)] }, "not supported"],
      [{ flags: 0, counts: [1, 0, 0, 0], question: [...NAME, ...u16(252, 1)] }, "not supported"],
    ] as [Parts, string][]
  ) assertThrows(() => readQuery(packetOf(parts)), PacketError, why);
  assertEquals(readQuestion(packetOf({ question: [...NAME, ...u16(4711, 1)] })), {
    name: "a.test",
    type: "TYPE4711",
  });
  assertEquals(readQuestion(new Uint8Array(5)), {});
});

Deno.test("answers: only to the question that was asked, and only records of its class", () => {
  const expected = { name: "A.Test", type: "A" };
  const bytes = packetOf({
    counts: [1, 2, 0, 0],
    records: [...record(1, [8, 8, 4, 4]), ...pointer(QNAME), ...u16(1, 3, 0, 60, 4), 9, 9, 9, 9],
  });
  const answer = readAnswer(bytes, 7, expected)!;
  assertEquals([answer.rcode, answer.truncated, answer.bytes], ["NOERROR", false, bytes.length]);
  assertEquals(answer.records, [{ name: "a.test", type: "A", ttl: 60, data: "8.8.4.4" }]);
  assertEquals(answer.negativeTtl, undefined);
  for (
    const [what, id, question, packet] of [
      ["another id", 8, expected, bytes],
      ["another high byte of the id", 263, expected, bytes],
      ["another name", 7, { ...expected, name: "b.test" }, bytes],
      ["another type", 7, { ...expected, type: "AAAA" }, bytes],
      ["a query", 7, expected, packetOf({ flags: 0x100, counts: [1, 0, 0, 0] })],
      ["another class", 7, expected, packetOf({ counts: [1, 0, 0, 0], question: [...NAME, ...u16(1, 3)] })],
      ["too few bytes", 7, expected, bytes.subarray(0, 11)],
    ] as const
  ) assertEquals(readAnswer(packet, id, question), undefined, what);
  const cut = readAnswer(packetOf({ flags: 0x8380 }), 7, expected)!;
  assertEquals([cut.truncated, cut.records, cut.rcode], [true, [], "NOERROR"]);
  const old = packetOf({ records: [...pointer(QNAME), ...u16(1, 1, 0x8000, 0, 4), 8, 8, 8, 8] });
  assertEquals(readAnswer(old, 7, expected)!.records[0].ttl, 0);
  for (const [ttl, minimum, negative] of [[60, 30, 30], [30, 60, 30]]) {
    const soa = [...NAME, ...NAME, ...Array(16).fill(0), ...u16(0, minimum)];
    const missing = packetOf({
      flags: 0x8183,
      counts: [1, 0, 1, 0],
      records: [...pointer(QNAME), ...u16(6, 1, 0, ttl, soa.length), ...soa],
    });
    const none = readAnswer(missing, 7, expected)!;
    assertEquals([none.rcode, none.records, none.negativeTtl], ["NXDOMAIN", [], negative]);
  }
});
