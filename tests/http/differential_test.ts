/**
 * Bytes that an HTTP server takes for a request, and a relay of other protocols lets through: none. COUNT and
 * SEED choose others; `make test-http` installs the servers.
 */
import { assertEquals } from "@std/assert";
import { Random } from "../helper/random.ts";
import { cuts, encode, passes, probes } from "./probes.ts";
import { KINDS, type Server, Servers, takes } from "./servers.ts";

const COUNT = Number(Deno.env.get("COUNT") ?? 6000);
const SEED = Number(Deno.env.get("SEED") ?? 36);
/** Connections to one server at once. */
const AT_ONCE = 24;
/** Ways in which each request is cut. */
const CUTS = 20;

Deno.test("nothing that a server takes for a request passes for another protocol", async () => {
  await using servers = await Servers.start(KINDS);
  const sent = probes(COUNT, SEED);
  const takers = new Map<string, string[]>();
  await Promise.all(servers.running.map((server) => sendAll(server, sent, takers)));
  const counts = KINDS.map((
    { name },
  ) => [name, [...takers.values()].filter((by) => by.includes(name)).length]);
  console.log(
    `seed ${SEED}: ${takers.size} of ${sent.length} are requests: ${
      JSON.stringify(Object.fromEntries(counts))
    }`,
  );
  // A server that takes nothing has not been tried.
  assertEquals(counts.filter(([name, count]) => count === 0 && name !== "nginx with HTTP/2"), []);
  const random = new Random(SEED);
  const through = [...takers].filter(([text]) => {
    const bytes = encode(text);
    return passes(bytes) ||
      Array.from({ length: CUTS }, () => cuts(random)).some((sizes) => passes(bytes, sizes));
  });
  assertEquals(through, []);
});

async function sendAll({ name, port }: Server, sent: string[], takers: Map<string, string[]>): Promise<void> {
  let next = 0;
  const send = async () => {
    while (next < sent.length) {
      const text = sent[next++];
      if (!await takes(port, encode(text))) continue;
      takers.set(text, [...takers.get(text) ?? [], name]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, send));
}
