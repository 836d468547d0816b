/**
 * Bytes that HTTP servers take for requests: those that tests/http found in all of them, and new ones on the
 * two servers that are there anyway. None passes a relay of other protocols.
 */
import { assertEquals } from "@std/assert";
import { sniff } from "../../lib/network/guest/sniff.ts";
import { Random } from "../helper/random.ts";
import { cuts, encode, passes, probes } from "../http/probes.ts";
import { KINDS, Servers, takes } from "../http/servers.ts";

const FOUND = new URL("../../fixtures/http/requests.jsonl", import.meta.url);
/** Ways in which each request is cut. */
const CUTS = 20;
/** New probes of each run; all spellings of a single piece are among them. */
const COUNT = 900;
const AT_ONCE = 24;

const found = (await Deno.readTextFile(FOUND)).trimEnd().split("\n")
  .map((line) => JSON.parse(line) as { bytes: string; by: string[] });

Deno.test("no request that was found passes a relay, whole or in pieces", () => {
  const random = new Random(404);
  const through = found.filter(({ bytes: text }) => {
    const bytes = encode(text);
    return sniff(bytes) === "other" || passes(bytes) ||
      Array.from({ length: CUTS }, () => cuts(random)).some((sizes) => passes(bytes, sizes));
  });
  assertEquals(through, []);
});

Deno.test("nothing that Node or Python takes for a request passes a relay", async () => {
  const random = new Random(405);
  await using servers = await Servers.start(KINDS.filter(({ name }) => name === "node" || name === "python"));
  const sent = [...new Set([...found.map(({ bytes }) => bytes), ...probes(COUNT, 406)])];
  for (const { name, port } of servers.running) {
    const through: string[] = [];
    let next = 0;
    let taken = 0;
    const send = async () => {
      while (next < sent.length) {
        const text = sent[next++];
        const bytes = encode(text);
        if (!await takes(port, bytes)) continue;
        taken++;
        if (passes(bytes) || passes(bytes, cuts(random))) through.push(text);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, send));
    assertEquals([through, taken > 0], [[], true], name);
  }
});
