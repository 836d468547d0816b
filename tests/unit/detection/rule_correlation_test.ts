/** Counting correlations against a recount of everything; first contacts and sums. */
import { assert, assertEquals } from "@std/assert";
import type { Matchable } from "../../../lib/detection/mod.ts";
import { compileRules } from "../../../lib/detection/rule/compile.ts";
import { COUNT_OPERATORS, type PlanCorrelation } from "../../../lib/detection/rule/plan.ts";
import { RuleEngine } from "../../../lib/detection/rule/run/engine.ts";
import { History } from "../../../lib/detection/rule/run/history.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";
import { Random } from "../../helper/random.ts";
import { fromRoot } from "../../helper/repo.ts";

const META = {
  id: "many",
  source_id: "r.yml",
  title: "Many",
  severity: "high",
  confidence: "medium",
  tags: [],
} as const;

interface Match {
  time: number;
  group: string;
  value: string;
}

/** The count of a correlation at the last match, from all matches. */
function recount(type: string, matches: readonly Match[], timespan: number): number {
  const last = matches.at(-1)!;
  const inTime = matches.filter(({ time, group }) => group === last.group && time > last.time - timespan);
  if (type === "event_count") return inTime.length;
  if (type === "value_count") return new Set(inTime.map(({ value }) => value)).size;
  return inTime.reduce((sum, { value }) => sum + Number(value), 0);
}

Deno.test("counts are what a recount of all matches counts", () => {
  const random = new Random(42);
  let fired = 0;
  for (const type of ["event_count", "value_count", "value_sum"] as const) {
    for (let run = 0; run < 100; run++) {
      const timespan_ms = 1 + random.below(50);
      const operator = random.pick(COUNT_OPERATORS);
      const number = random.below(type === "value_sum" ? 40 : 6);
      const correlation: PlanCorrelation = {
        ...META,
        tags: [],
        type,
        rules: ["r"],
        timespan_ms,
        count: { [operator]: number },
        group_by: {},
      };
      const history = new History(correlation);
      const matches: Match[] = [];
      const firedAt = new Map<string, number>();
      let time = 0;
      for (let at = 0; at < 200; at++) {
        time += random.below(8);
        const match = { time, group: random.pick(["a", "b"]), value: String(random.below(9)) };
        matches.push(match);
        const count = recount(type, matches, timespan_ms);
        const holds = {
          lt: count < number,
          lte: count <= number,
          gt: count > number,
          gte: count >= number,
          eq: count === number,
          neq: count !== number,
        }[operator];
        const isQuiet = time - (firedAt.get(match.group) ?? -Infinity) < timespan_ms;
        const expected = holds && !isQuiet;
        if (expected) firedAt.set(match.group, time);
        fired += Number(expected);
        assertEquals(
          history.add({ rule_id: "r", ...match }),
          expected,
          JSON.stringify({ type, timespan_ms, operator, number, at }),
        );
      }
    }
  }
  assert(fired > 1000, `${fired} matches`);
});

const REQUEST = `title: Request
name: request
logsource: {category: proxy}
detection: {sel: {cs-host|re: .}, condition: sel}
`;

function request(at: number, { host = "a.example", bytes = 0, session = "s" } = {}): Matchable {
  return {
    common: eventCommon("http.request", { session_id: session, timestamp_unix_ms: 1_000_000 + at }),
    http: { request: httpRequest({ method: "POST", host, bytes }) },
  } as unknown as Matchable;
}

function found(correlation: string, events: readonly Matchable[]): number[] {
  const text = `${REQUEST}---\ntitle: Many\ncorrelation: {${correlation}}\n`;
  const { plan, outcomes } = compileRules([{ path: "r.yml", text }], { pack_id: "test" });
  assertEquals(outcomes.flatMap(({ reasons }) => reasons), []);
  const engine = new RuleEngine([plan]);
  return events.map((event) => engine.match(event).length);
}

Deno.test("value_sum adds up bytes that leave for a host in a time", () => {
  const sum =
    "type: value_sum, rules: [request], group-by: [cs-host], timespan: 1m, condition: {field: cs-bytes, gte: 5000000}";
  const events = [
    request(0, { bytes: 4_000_000 }),
    request(1, { bytes: 4_000_000, host: "b.example" }),
    request(2, { bytes: 999_999 }),
    request(3, { bytes: 1 }),
    request(70_000, { bytes: 4_999_999 }),
  ];
  assertEquals(found(sum, events), [0, 0, 0, 1, 0]);
  // Small ones add up too, however many they are.
  const many = Array.from({ length: 20_000 }, (_, at) => request(at, { bytes: 250 }));
  assertEquals(found(sum, many).lastIndexOf(1), 19_999);
});

Deno.test("a count of one is the first contact with a host", () => {
  const first = "type: event_count, rules: [request], group-by: [cs-host], timespan: 30d, condition: {eq: 1}";
  const hosts = ["a.example", "b.example", "a.example", "b.example"];
  const events = hosts.map((host, at) => request(at, { host }));
  assertEquals(found(first, [...events, request(9, { session: "other" })]), [1, 1, 0, 0, 1]);
});

Deno.test("the correlations of the guide find what they say", async () => {
  const guide = await Deno.readTextFile(fromRoot("docs/guides/detection.md"));
  const text = /### What happened before\n[\s\S]*?```yaml\n([\s\S]*?)```/.exec(guide)![1];
  const { plan, outcomes } = compileRules([{ path: "guide.yml", text }], { pack_id: "test" });
  assertEquals(outcomes.flatMap(({ reasons, warnings }) => [...reasons, ...warnings]), []);
  const engine = new RuleEngine([plan]);
  const ids = (event: Matchable) => engine.match(event).map(({ id }) => id);
  const read = (path: string, at: number) => ({
    common: eventCommon("file.activity", { session_id: "s", timestamp_unix_ms: 1_000_000 + at }),
    file: { activity: { operation: "read", path } },
  } as unknown as Matchable);
  assertEquals(ids(request(0)), ["first-contact-with-a-host"]);
  assertEquals(ids(read("/root/work/.env", 1)), []);
  assertEquals(ids(request(2)), ["a-secret-is-read-then-something-is-uploaded"]);
  assertEquals(ids(request(3, { bytes: 50_000_001 })), ["more-than-50-mb-to-one-host-in-an-hour"]);
  const rest = Array.from({ length: 98 }, (_, at) => ids(request(10 + at)));
  assertEquals(rest.flat(), ["more-than-100-requests-to-a-host-in-a-minute"]);
});
