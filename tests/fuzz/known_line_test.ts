/** Lines that a backtest does not parse against the same lines parsed one by one. Seeds are fixed. */
import { assert, assertEquals } from "@std/assert";
import { compileRules } from "../../lib/detection/rule/compile.ts";
import { type Compiled, Matcher } from "../../lib/detection/mod.ts";
import { readFixture } from "../../lib/detection/replay/fixture.ts";
import { KnownLines } from "../../lib/detection/replay/known_line.ts";
import { checkEvents } from "../../lib/detection/replay/mod.ts";
import { damage } from "../helper/damage.ts";
import { ir, rule } from "../helper/detection.ts";
import { randomEvent, randomPack } from "../helper/fleet_events.ts";
import { Random } from "../helper/random.ts";

const EXACT = ir([
  rule("host", { "http.request.host": ["a.example", "ä.example"] }),
  rule("port", { "http.request.port": [443, 1e3, 0], "http.request.method": ["GET", "a\\b"] }),
  rule("qname", { "dns.request.qname": ["a.example", ""] }),
  rule("truncated", { "http.request.body.truncated": true }),
]);
const sigma = (text: string): Compiled =>
  compileRules([{ path: "rules.yml", text }], { pack_id: "sigma.fuzz" }).plan;
const of = (detection: string) =>
  sigma(`title: Rule\nlogsource: {category: proxy}\ndetection: {${detection}, condition: s}\nlevel: low\n`);
const PACKS: Record<string, Compiled> = {
  exact: EXACT,
  random: randomPack(40, new Random(7)),
  fields: of(`s: {cs-host|endswith: '.example', c-useragent|contains: 'tool'}`),
  keywords: of(`s: ['tool', 'a.example']`),
};

const HOSTS = [
  "a.example",
  "A.Example",
  "b.example",
  "ä.example",
  "xn--4ca.example",
  "a.example.",
  "10.1",
  "",
];
const TEXTS = ["", "GET", "POST", 'a\\b"c', "tool/1", "\u2028", "😀", "x".repeat(500), "tab\t", "__proto__"];
const NUMBERS = [0, -0, 443, 1000, 1.5, -1, 1e21, 5e-324];

/** A line of one of a few shapes, as exports and people write them. */
function lineOf(random: Random, at: number): string {
  if (random.below(8) === 0) return JSON.stringify(randomEvent("s", random).event);
  const request = {
    method: random.pick(TEXTS),
    host: random.pick(HOSTS),
    port: random.pick(NUMBERS),
    ...random.below(2) && {
      headers: { [random.pick(["user-agent", "User-Agent"])]: [random.pick(TEXTS), random.pick(TEXTS)] },
    },
    ...random.below(4) === 0 && { body: { state: "missing", truncated: random.below(2) === 0 } },
  };
  const isQuery = random.below(4) === 0;
  const common = { event_id: `e${at}`, event_type: isQuery ? "dns.query" : "http.request" };
  const context = {
    schema_version: 1,
    common,
    ...isQuery ? { dns: { request: { qname: random.pick(HOSTS) } } } : { http: { request } },
  };
  const line = random.below(3) === 0
    ? { ...context, ...random.below(2) && { decision: random.pick(["allow", "block"]), rule_id: "r" } }
    : {
      schema: "sbx.policy-context-fixture.v1",
      event_ref: { corpus: "c", session_id: "s", event_id: `r${at}`, sequence: at, timestamp_unix_ms: 1 },
      ...random.below(2) && { expected_labels: random.below(6) === 0 ? ["host"] : [] },
      context,
    };
  return JSON.stringify(line, null, random.below(20) === 0 ? " " : undefined).replaceAll("\n", " ");
}

/** Changes of a line that a careless pattern would accept. */
const CHANGES: ((line: string, random: Random) => string)[] = [
  (line, random) => new TextDecoder().decode(damage(new TextEncoder().encode(line), random)),
  (line) => line.replace(/:(\d+)/, ":0$1"),
  (line) => line.replace(/:(\d+)/, ":$1."),
  (line) => line.replace(/:(\d+)/, ":-$1e-2"),
  (line) => line.replace(/:(\d+)/, ":null"),
  (line) => line.replace(/:(\d+)/, ':"$1"'),
  (line) => line.replace(".example", "\\u002eexample"),
  (line) => line.replace(".example", "\u0001example"),
  (line) => line.replace(".example", '\\"example'),
  (line) => line.replace('"host"', '"host":"b.example","host"'),
  (line) => line.replace('"method"', '"__proto__"'),
  (line) => line.replace("http.request", "http.reqest"),
  (line) => line.replace("fixture.v1", "fixture.v2"),
  (line) => line.replace('"schema_version":1', '"schema_version":2'),
  (line) => line.replace("[]", "[7]"),
  (line) => line.replace("[]", '["host"]'),
  (line) => line.replace("true", "1").replace("false", '"false"'),
  (line) => `${line} `,
  (line) => `${line}}`,
  (line) => line.slice(0, -1),
  (line) => `[${line}]`,
];

Deno.test("a backtest reports the same as if each line were parsed", async () => {
  const random = new Random(20261130);
  const path = await Deno.makeTempFile({ suffix: ".jsonl" });
  try {
    for (const [name, pack] of Object.entries(PACKS)) {
      for (let round = 0; round < 3; round++) {
        const lines = Array.from({ length: 1500 }, (_, at) => {
          const line = lineOf(random, at);
          return random.below(4) === 0 ? random.pick(CHANGES)(line, random) : line;
        }).map((line) => line.replaceAll("\n", " ").toWellFormed());
        await Deno.writeTextFile(path, lines.join("\n"));
        const matcher = new Matcher([pack]);
        let events = 0;
        const [faults, findings]: string[][] = [[], []];
        const labelled: number[] = [];
        for (const [at, text] of lines.entries()) {
          if (text.trim() === "") continue;
          const fixture = readFixture(at === 0 ? text.replace(/^\ufeff/, "") : text);
          if (typeof fixture === "string") {
            faults.push(`${path}:${at + 1}: ${fixture}`);
            continue;
          }
          events++;
          const hits = matcher.hits(fixture.event);
          for (const { rule } of hits) findings.push(`${fixture.event_id} ${rule.id}`);
          if (fixture.labels?.length) labelled.push(at + 1);
        }
        const { report, results } = await checkEvents(pack, path);
        assertEquals(report.event_count, events, name);
        assertEquals(
          report.findings.map(({ event_id, rule_id }) => `${event_id} ${rule_id}`),
          findings,
          name,
        );
        assertEquals(report.match_count, findings.length);
        const compared = results.map(({ line }) => line);
        assertEquals(compared.filter((line) => labelled.includes(line)), labelled, name);
        const messages = report.diagnostics.map(({ message }) => message);
        assertEquals(messages.filter((message) => faults.includes(message)), faults.slice(0, 100), name);
        assert(findings.length > 0 && faults.length > 100, `${name}: ${findings.length} ${faults.length}`);
      }
    }
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("values of a known line are the ones that its JSON has", () => {
  const random = new Random(20261201);
  let known = 0;
  for (let round = 0; round < 24; round++) {
    const reads = random.below(2) === 0 ? "all" : ["http.request", "dns.request.qname"];
    const isStrict = random.below(2) === 0;
    const lines = new KnownLines(reads);
    for (let at = 0; at < 500; at++) {
      const line = lineOf(random, at);
      const text = random.below(4) === 0 ? random.pick(CHANGES)(line, random) : line;
      const event = lines.eventOf(text) as Record<string, unknown> | undefined;
      const fixture = readFixture(text, isStrict);
      if (typeof fixture === "string") assertEquals(event, undefined, text);
      else if (!event) lines.learn(text, fixture);
      else {
        known++;
        const parsed = fixture.event as unknown as Record<string, unknown>;
        if (reads === "all") assertEquals(event, parsed);
        else assertEquals([event.http, event.dns], [parsed.http, parsed.dns]);
      }
    }
  }
  assert(known > 1000, `${known}`);
});

Deno.test("a file of lines that all differ is soon read without comparisons", () => {
  const lines = new KnownLines(["http.request.host"]);
  const line = (at: number) => {
    const request = { host: "a.example", headers: { [`x-${at}`]: ["1"] } };
    return JSON.stringify({ common: { event_type: "http.request" }, http: { request } });
  };
  const offer = (text: string): boolean => {
    const isKnown = lines.eventOf(text) !== undefined;
    if (isKnown) lines.spare();
    else lines.learn(text, readFixture(text) as Exclude<ReturnType<typeof readFixture>, string>);
    return isKnown;
  };
  assertEquals([offer(line(1)), offer(line(1))], [false, true]);
  for (let at = 2; at < 2000; at++) offer(line(at));
  assertEquals([offer(line(1)), offer(line(1))], [false, false]);
  // Later in the file they may be alike.
  for (let at = 0; at < 20_000; at++) offer(line(1));
  assertEquals(offer(line(1)), true);
});
