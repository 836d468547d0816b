import { assert, assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { parseResolvers, systemResolvers } from "../../../../lib/network/dns/mod.ts";
import { ResolverClient, ResolverError } from "../../../../lib/network/dns/resolver.ts";
import { eventually } from "../../../helper/sbx.ts";
import { records, type Respond, TestResolver } from "../../../helper/resolver.ts";

const QUESTION = { name: "a.test", type: "A" };
const ANSWER = { name: "a.test", type: "A", ttl: 60, data: "8.8.4.4" };

/**
 * Time in `ms` of a try that nothing answers, and of one that an answer must
 * not miss after a silent resolver.
 */
const SILENT_MS = 200, PATIENT_MS = 2000;

/** Queries resolvers that respond as given. @returns the answer or the error as text, and the resolvers */
function queryAll(...responds: Respond[]): Promise<{ answer: string; servers: TestResolver[] }> {
  return queryWithin(undefined, ...responds);
}

/** The same with another time for each try than the product's. */
async function queryWithin(tryMs: number | undefined, ...responds: Respond[]) {
  const servers = await Promise.all(responds.map((respond) => TestResolver.start(respond)));
  const client = new ResolverClient(servers.map(({ endpoint }) => endpoint), tryMs);
  const answer = await client.query(QUESTION).then(
    ({ rcode, records }) => records.map(({ data }) => data).join(" ") || rcode,
    (error) => error instanceof ResolverError ? error.message : `${error}`,
  );
  for (const server of servers) {
    await server.drained();
    server.close();
  }
  return { answer, servers };
}

Deno.test("resolvers are queried one after another until one answers", async () => {
  const silent: Respond = () => undefined;
  const good = records(ANSWER);
  const cases: [string, Respond[], string, number[], tryMs?: number][] = [
    ["the first answers", [good, good], "8.8.4.4", [1, 0]],
    ["the first fails", [() => ({ flags: 2 }), good], "8.8.4.4", [1, 1]],
    ["the first is silent", [silent, good], "8.8.4.4", [1, 1], PATIENT_MS],
    ["the first sends rubbish", [() => new Uint8Array(20), good], "8.8.4.4", [1, 1], PATIENT_MS],
    ["a name that does not exist is an answer", [records(), good], "NXDOMAIN", [1, 0]],
    ["none answers", [silent], "the resolver did not answer in time", [3], SILENT_MS],
    ["all refuse", [() => ({ flags: 5 })], "the resolver answered REFUSED", [3]],
  ];
  for (const [name, responds, expected, counts, tryMs] of cases) {
    const { answer, servers } = await queryWithin(tryMs, ...responds);
    assertEquals(answer, expected, name);
    assertEquals(servers.map(({ seen }) => seen.length), counts, name);
  }
});

Deno.test("a truncated answer is queried again over TCP, and its records are dropped", async () => {
  const { answer, servers: [server] } = await queryAll((_, proto) =>
    proto === "udp" ? { flags: 1 << 9, answers: [{ ...ANSWER, data: "9.9.9.9" }] } : { answers: [ANSWER] }
  );
  assertEquals(answer, "8.8.4.4");
  assertEquals(server.seen.map(({ proto }) => proto), ["udp", "tcp"]);
  const wrong = await queryAll((query, proto) =>
    proto === "udp" ? { flags: 1 << 9 } : { answers: [ANSWER], id: query.id ^ 1 }
  );
  assertEquals(wrong.answer, "the resolver's answer is invalid: an answer to another question");
  const all = Array.from({ length: 300 }, (_, i) => ({ ...ANSWER, data: `8.8.${i >> 8}.${i & 255}` }));
  const big = await queryAll((_, proto) => proto === "udp" ? { flags: 1 << 9 } : { answers: all });
  assertEquals(big.answer.split(" ").length, 300);
  const many = await queryAll((_, proto) =>
    proto === "udp" ? { flags: 1 << 9 } : { answers: [...all, ...all] }
  );
  assert(many.answer.includes("more than 512 records"), many.answer);
});

Deno.test("queries leave no socket open, answered or not", async () => {
  const results = [];
  for (let round = 0; round < 10; round++) {
    results.push(await queryAll(records(ANSWER)), await queryAll(() => ({ flags: 5 })));
  }
  const ports = results.flatMap(({ servers }) => servers).flatMap(({ seen }) => seen.map(({ port }) => port));
  assert(ports.length >= 20);
  await eventually("the sockets are closed", async () => {
    const bound = await boundUdpPorts();
    // Other tests may have been given one of these ports since.
    return ports.filter((port) => bound.has(port)).length <= 2;
  }, 5);
});

/** Local ports of all UDP sockets, from the kernel's table. */
async function boundUdpPorts(): Promise<Set<number>> {
  const lines = (await Deno.readTextFile("/proc/net/udp")).trim().split("\n").slice(1);
  return new Set(lines.map((line) => parseInt(line.trim().split(/\s+/)[1].split(":")[1], 16)));
}

Deno.test("an answer to another question, or with another id, is ignored", async () => {
  const cases: [string, Respond][] = [
    ["another id", ({ id, questions }) => ({ id: id ^ 1, questions, answers: [ANSWER] })],
    ["another name", () => ({ questions: [{ name: "b.test", type: "A" }], answers: [ANSWER] })],
    ["another type", () => ({ questions: [{ name: "a.test", type: "TXT" }], answers: [ANSWER] })],
    ["a query", () => ({ type: "query", answers: [ANSWER] })],
  ];
  for (const [name, respond] of cases) {
    const { answer } = await queryWithin(SILENT_MS, respond);
    assertEquals(answer, "the resolver did not answer in time", name);
  }
});

Deno.test("ids and ports are random, and a pending question is not sent twice", async () => {
  const server = await TestResolver.start(records(ANSWER));
  const client = new ResolverClient([server.endpoint]);
  await Promise.all([client.query(QUESTION), client.query({ name: "A.TEST.", type: "A" })]);
  assertEquals(server.seen.length, 1);
  for (let i = 0; i < 7; i++) await client.query(QUESTION);
  assertNotEquals(new Set(server.seen.map(({ id }) => id)).size, 1);
  assertNotEquals(new Set(server.seen.map(({ port }) => port)).size, 1);
  server.close();
});

Deno.test("an unreachable resolver, a slow one, and none at all have different errors", async () => {
  const server = await TestResolver.start(() => ({ flags: 1 << 9 }));
  server.closeTcp();
  const unreachable = await assertRejects(
    () => new ResolverClient([server.endpoint], 200).query(QUESTION),
    ResolverError,
  );
  assertEquals([unreachable.message, unreachable.code], ["the resolver cannot be reached", 23]);
  server.close();
  const silent = await assertRejects(
    () => new ResolverClient([server.endpoint], 100).query(QUESTION),
    ResolverError,
  );
  assertEquals([silent.message, silent.code], ["the resolver did not answer in time", 22]);
  await assertRejects(() => new ResolverClient([]).query(QUESTION), ResolverError, "has no DNS resolver");
});

Deno.test("resolvers come from a setting, or from resolv.conf", async () => {
  const good: [string, string, number][] = [
    ["192.0.2.1", "192.0.2.1", 53],
    ["192.0.2.1:5353", "192.0.2.1", 5353],
    ["2001:db8::1", "2001:db8::1", 53],
    ["[2001:db8::1]:54", "2001:db8::1", 54],
    ["[2001:db8::1]", "2001:db8::1", 53],
  ];
  for (const [text, hostname, port] of good) assertEquals(parseResolvers([text]), [{ hostname, port }], text);
  for (
    const text of [
      "",
      "dns.test",
      "1.2.3",
      "0x7f.1",
      "1.2.3.4:0",
      "1.2.3.4:70000",
      "1.2.3.4:",
      "[::1",
      "::1:x",
    ]
  ) {
    const { code } = assertThrows(() => parseResolvers([text]), SbxError, `"${text}"`);
    assertEquals(code, "dns.resolver.invalid");
  }
  const path = await Deno.makeTempFile();
  await Deno.writeTextFile(
    path,
    "# nameserver 1.1.1.1\nsearch a.test\nnameserver 192.0.2.1\n nameserver fe80::1%eth0\n",
  );
  assertEquals(await systemResolvers(path), [{ hostname: "192.0.2.1", port: 53 }, {
    hostname: "fe80::1",
    port: 53,
  }]);
  await Deno.remove(path);
  assertEquals(await systemResolvers(path), []);
});
