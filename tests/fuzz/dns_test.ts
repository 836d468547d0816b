import { assert, assertEquals } from "@std/assert";
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { PacketError, walkPacket } from "../../lib/network/dns/guard.ts";
import { DnsService } from "../../lib/network/dns/mod.ts";
import { readAnswer } from "../../lib/network/dns/packet.ts";
import { TestGate } from "../helper/gate.ts";
import { Random } from "../helper/random.ts";
import { ask, read } from "../helper/resolver.ts";

const ROUNDS = 20_000;

const RECORDS = [
  { name: "a.test", type: "A", ttl: 60, data: "8.8.4.4" },
  { name: "a.test", type: "AAAA", ttl: 60, data: "2001:db8::1" },
  { name: "a.test", type: "CNAME", ttl: 60, data: "b.test" },
  { name: "a.test", type: "MX", ttl: 60, data: { preference: 10, exchange: "mail.test" } },
  { name: "a.test", type: "SRV", ttl: 60, data: { priority: 1, weight: 1, port: 80, target: "srv.test" } },
  { name: "a.test", type: "TXT", ttl: 60, data: ["one", "two"] },
  { name: "a.test", type: "CAA", ttl: 60, data: { flags: 0, tag: "issue", value: "ca.test" } },
  {
    name: "a.test",
    type: "NAPTR",
    ttl: 60,
    data: { order: 1, preference: 1, flags: "s", services: "x", regexp: "", replacement: "r.test" },
  },
  {
    name: "a.test",
    type: "SOA",
    ttl: 60,
    data: { mname: "ns.test", rname: "h.test", serial: 1, refresh: 1, retry: 1, expire: 1, minimum: 1 },
  },
];
const QUESTION = { name: "a.test", type: "A" };

function answer(records: unknown[]): Uint8Array {
  return packet.encode({ type: "response", id: 7, questions: [QUESTION], answers: records });
}

/** Damages a packet: changes bytes, makes some of them pointers, cuts it or appends bytes. */
function damage(random: Random, bytes: Uint8Array): Uint8Array {
  const copy = new Uint8Array(bytes);
  for (let changes = 1 + random.below(4); changes > 0; changes--) {
    const at = 4 + random.below(copy.length - 4);
    if (random.below(3) === 0) {
      copy.set([0xc0 | random.below(4), random.below(copy.length)], Math.min(at, copy.length - 2));
    } else copy[at] = random.below(256);
  }
  switch (random.below(5)) {
    case 0:
      return copy.subarray(0, random.below(copy.length));
    case 1:
      return new Uint8Array([...copy, ...random.bytes(random.below(40))]);
    default:
      return copy;
  }
}

Deno.test("damaged answers are decoded or refused, and decoded ones can be encoded again", () => {
  const random = new Random(20260501);
  let decoded = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const records = Array.from({ length: 1 + random.below(4) }, () => random.pick(RECORDS));
    const bytes = damage(random, answer(records));
    try {
      const read = readAnswer(bytes, 7, QUESTION);
      if (!read) continue;
      decoded++;
      // The guest gets these records: they must survive being encoded and decoded again.
      const again = packet.decode(Buffer.from(answer(read.records)));
      assertEquals(again.answers.length, read.records.length);
      assertEquals(
        again.answers.map(({ name }: { name: string }) => name),
        read.records.map(({ name }) => name),
      );
    } catch (error) {
      assert(error instanceof PacketError, `round ${round}: ${error}`);
    }
  }
  assert(decoded > ROUNDS / 50, `only ${decoded} were decoded`);
});

Deno.test("random bytes and damaged queries are answered with their id", async () => {
  const random = new Random(20260502);
  const gate = new TestGate();
  const dns = new DnsService({ gate, resolvers: [] });
  for (let round = 0; round < 2000; round++) {
    const bytes = random.below(4) === 0 ? random.bytes(random.below(80)) : damage(
      random,
      ask(random.pick(["a.test", "www.b.test", "."]), random.pick(["A", "TXT", "ANY", "UNKNOWN_65"])),
    );
    const reply = read(await dns.answer(bytes, { proto: "udp", process_name: "x" }));
    assertEquals(
      [reply.type, reply.id],
      ["response", bytes.length < 2 ? 0 : bytes[0] << 8 | bytes[1]],
      `round ${round}`,
    );
    assertEquals(gate.entries.length, round + 1, "each query is an event");
  }
});

Deno.test("malicious packets are refused", () => {
  const head = (
    ...counts: number[]
  ) => [0, 7, 0x80, 0, ...counts.flatMap((count) => [count >> 8, count & 255])];
  const question = [1, 97, 4, 116, 101, 115, 116, 0, 0, 1, 0, 1];
  const a = (
    name: number[],
    length = 4,
  ) => [...name, 0, 1, 0, 1, 0, 0, 0, 9, length >> 8, length & 255, 8, 8, 8, 8];
  const cases: [string, number[], string][] = [
    ["a pointer to itself", [...head(1, 1, 0, 0), ...question, ...a([0xc0, 24])], "pointer"],
    ["a pointer forward", [...head(1, 1, 0, 0), ...question, ...a([0xc0, 40])], "pointer"],
    ["a pointer into the header", [...head(1, 1, 0, 0), ...question, ...a([0xc0, 4])], "pointer"],
    ["two pointers to each other", [...head(1, 0, 0, 0), 0xc0, 14, 0xc0, 12, 0, 1, 0, 1], "pointer"],
    ["a false count", [...head(1, 9, 0, 0), ...question, ...a([0xc0, 12])], "truncated"],
    [
      "the largest counts",
      [...head(1, 65535, 65535, 65535), ...question],
      "more than 512 records",
    ],
    ["no question", head(0, 0, 0, 0), "0 questions"],
    [
      "data longer than the packet",
      [...head(1, 1, 0, 0), ...question, ...a([0xc0, 12], 60000)],
      "longer than",
    ],
    ["an address of five bytes", [...head(1, 1, 0, 0), ...question, ...a([0xc0, 12], 5), 8], "type 1"],
    ["bytes after the end", [...head(1, 0, 0, 0), ...question, 0], "bytes after the last record"],
    [
      "a label of 64",
      [...head(1, 0, 0, 0), 64, ...Array(64).fill(97), 0, 0, 1, 0, 1],
      "invalid label length",
    ],
    [
      "a name of 256 bytes",
      [...head(1, 0, 0, 0), ...Array(128).fill([1, 97]).flat(), 0, 0, 1, 0, 1],
      "longer than 255",
    ],
    ["a dot within a label", [...head(1, 0, 0, 0), 3, 97, 46, 98, 0, 0, 1, 0, 1], "characters"],
    ["64 KB and one", [...head(1, 0, 0, 0), ...Array(65_524).fill(0)], "65536 bytes"],
  ];
  for (const [name, bytes, message] of cases) {
    try {
      walkPacket(new Uint8Array(bytes));
    } catch (error) {
      assert(error instanceof PacketError && error.message.includes(message), `${name}: ${error}`);
      continue;
    }
    throw new Error(`${name} was not refused`);
  }
  const chain = [...head(1, 40, 0, 0), ...question];
  for (let at = 12, next = 24; next < 12 + 12 + 40 * 16; at = next, next += 16) {
    chain.push(...a([0xc0 | at >> 8, at & 255]));
  }
  let error: unknown;
  try {
    walkPacket(new Uint8Array(chain));
  } catch (thrown) {
    error = thrown;
  }
  assert(error instanceof PacketError && error.message.includes("too many pointers"), `${error}`);
});
