/**
 * Queries answered from the cache, each through the real gate into a real ledger: decoded, decided on,
 * recorded, encoded. The floor is the same packet decoded and encoded by `dns-packet` alone.
 */
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { DnsService } from "../../lib/network/dns/mod.ts";
import { ask, TestResolver } from "../helper/resolver.ts";
import { contractOf, openGate } from "../helper/session_gate.ts";
import { median, rounded } from "../helper/statistics.ts";

const TARGET = 10_000;
const QUERIES = 20_000;
const AT_ONCE = 64;
const NAMES = 100;
const RUNS = 5;

const dir = await Deno.makeTempDir();
const resolver = await TestResolver.start(({ questions: [{ name, type }] }) => ({
  answers: [1, 2, 3].map((last) => ({ name, type, ttl: 3600, data: `8.8.4.${last}` })),
}));
const { gate, close, failures } = await openGate(join(dir, "session.db"), contractOf(""), undefined, false);
const dns = new DnsService({ gate, resolvers: [resolver.endpoint] });
const queries = Array.from({ length: NAMES }, (_, i) => ask(`host${i}.bench.test`));
const by = { proto: "udp" as const, process_name: "bench" };
for (const query of queries) await dns.answer(query, by);

async function measureService(): Promise<number> {
  const began = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async (_, lane) => {
    while (next++ < QUERIES) {
      // Equal bytes at the same time would be one query.
      const query = queries[next % NAMES];
      query[0] = next >> 8;
      query[1] = lane;
      await dns.answer(query, by);
    }
  }));
  return QUERIES / (performance.now() - began) * 1000;
}

const answer = Buffer.from(await dns.answer(queries[0], by));
function measureFloor(): number {
  const began = performance.now();
  for (let i = 0; i < QUERIES; i++) {
    packet.decode(Buffer.from(queries[i % NAMES]));
    packet.encode({ ...packet.decode(answer), id: i & 0xffff });
  }
  return QUERIES / (performance.now() - began) * 1000;
}

const values: number[] = [];
const floors: number[] = [];
for (let run = 0; run < RUNS; run++) {
  floors.push(measureFloor());
  values.push(await measureService());
}
await close();
if (failures.length > 0) throw new Error(failures[0]);
resolver.close();
await Deno.remove(dir, { recursive: true });
console.log(JSON.stringify({
  name: "dns",
  unit: "queries/s",
  target: `>= ${TARGET}`,
  value: Math.round(median(values)),
  best: Math.round(Math.max(...values)),
  floor: Math.round(median(floors)),
  ratio: rounded(median(values) / median(floors)),
  runs: RUNS,
}));
