/** The compiler and the matcher of Sigma rules against an interpreter written from the specification. */
import { assert, assertEquals } from "@std/assert";
import { compileRules } from "../../../lib/detection/rule/compile.ts";
import { RuleEngine } from "../../../lib/detection/rule/run/engine.ts";
import type { Matchable } from "../../../lib/detection/mod.ts";
import { eventCommon, httpRequest, processExec } from "../../helper/event.ts";
import { type LogRecord, verdict } from "../../helper/sigma_oracle.ts";
import { Random } from "../../helper/random.ts";

const BATCHES = 60;
const EVENTS = 200;
const RULES = 12;

/** What rules and events are made of: few pieces, so that they meet often. */
const PIECES = [
  "curl",
  "/tmp/",
  "/bin/sh",
  "-o",
  " -enc",
  "a",
  "B",
  "x9",
  "é",
  "evil.example",
  " ",
  "\\",
  "10",
  "Zz",
];
const WILD = [...PIECES, "*", "?", "\\*", "\\\\", "\\?"];
const ADDRESSES = ["10.1.2.3", "10.200.0.1", "192.168.7.9", "8.8.8.8", "::1", "example.com"];
const NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/29", "8.8.8.8/32", "0.0.0.0/0"];
const REGEXES = ["^curl", "tmp/.*x9", "(a|B)+", "[a-z]{3}\\d", "evil\\.example$", "Zz.?", "\\bcurl\\b"];
const NUMBERS = [0, 1, 10, 22, 200, 404, 443];

/** Fields of each log source, and the events that records of it become. */
const SOURCES = {
  process_creation: {
    fields: ["Image", "CommandLine", "CurrentDirectory", "ProcessId", "User", "Hashes"],
    event({ Image, CommandLine, CurrentDirectory, ProcessId, User }: LogRecord) {
      const activity = processExec({
        executable: String(Image),
        command: String(CommandLine),
        argv: [],
        cwd: String(CurrentDirectory),
      });
      const process = { pid: Number(ProcessId), ppid: 0, executable: "-", command: "-", cwd: "-" };
      const labels = User === undefined ? {} : { uid: String(User) };
      return { common: eventCommon("process.exec", { process, labels } as never), process: { activity } };
    },
  },
  proxy: {
    fields: [
      "c-uri-query",
      "cs-host",
      "cs-method",
      "c-useragent",
      "cs-cookie",
      "sc-status",
      "dst_port",
      "cs-version",
    ],
    event(record: LogRecord) {
      const headers = Object.fromEntries(
        [["user-agent", record["c-useragent"]], ["cookie", record["cs-cookie"]]].filter(([, value]) =>
          value !== undefined
        ),
      );
      const request = httpRequest({
        query: String(record["c-uri-query"]),
        host: String(record["cs-host"]),
        method: String(record["cs-method"]),
        port: Number(record.dst_port),
        headers,
      });
      const status = record["sc-status"];
      const response = status === undefined ? {} : { response: { status } };
      return { common: eventCommon("http.request"), http: { request, ...response } };
    },
  },
  dns_query: {
    fields: ["QueryName", "QueryResults", "QueryStatus", "record_type", "Image"],
    event({ QueryName, QueryResults, QueryStatus, record_type }: LogRecord) {
      const response = QueryResults === undefined
        ? {}
        : { response: { answers: QueryResults, rcode: QueryStatus } };
      return {
        common: eventCommon("dns.query"),
        dns: { request: { qname: QueryName, qtype: record_type, transport: "udp" }, ...response },
      };
    },
  },
} as const;
type Source = keyof typeof SOURCES;

const source = new Random(2026);
const pick = <T>(from: readonly T[]) => source.pick(from);
const below = (limit: number) => source.below(limit);
const chance = (share: number) => below(1000) < share * 1000;
const text = (pieces: readonly string[], most: number) =>
  Array.from({ length: below(most + 1) }, () => pick(pieces)).join("");

function recordOf(source: Source): LogRecord {
  if (source === "process_creation") {
    return {
      Image: text(PIECES, 3),
      CommandLine: text(PIECES, 6),
      CurrentDirectory: text(PIECES, 2),
      ProcessId: pick(NUMBERS) + 1,
      User: chance(0.7) ? text(["a", "B", "1"], 2) + "u" : undefined,
    };
  }
  if (source === "proxy") {
    return {
      "c-uri-query": text(PIECES, 5),
      "cs-host": chance(0.5) ? pick(ADDRESSES) : text(PIECES, 2),
      "cs-method": pick(["GET", "POST", "PUT"]),
      "c-useragent": chance(0.7) ? Array.from({ length: 1 + below(2) }, () => text(PIECES, 3)) : undefined,
      "cs-cookie": chance(0.3) ? [text(PIECES, 4), btoa(text(["curl", "Zz", "ab"], 3))] : undefined,
      "sc-status": chance(0.7) ? pick(NUMBERS) : undefined,
      "dst_port": pick(NUMBERS),
    };
  }
  const hasAnswer = chance(0.7);
  return {
    QueryName: text(PIECES, 3),
    QueryResults: hasAnswer ? Array.from({ length: below(3) }, () => pick(ADDRESSES)) : undefined,
    QueryStatus: hasAnswer ? pick(["NOERROR", "NXDOMAIN"]) : undefined,
    record_type: pick(["A", "AAAA", "TXT"]),
  };
}

/** Modifiers with the values that they take. */
function itemOf(source: Source): [string, unknown] {
  const { fields } = SOURCES[source];
  const field = pick(fields);
  const list = (value: () => unknown) => chance(0.5) ? value() : Array.from({ length: 1 + below(3) }, value);
  const all = chance(0.3) ? "|all" : "";
  const cased = chance(0.2) ? "|cased" : "";
  const position = pick(["", "", "|contains", "|startswith", "|endswith"]);
  switch (below(14)) {
    case 0:
      return [`${field}|exists`, chance(0.5)];
    case 1:
      return [field, list(() => chance(0.3) ? null : text(WILD, 2))];
    case 2:
      return [`${field}|re${pick(["", "|i", "|i|s"])}${all}`, list(() => pick(REGEXES))];
    case 3:
      return [`${field}|cidr`, list(() => pick(NETWORKS))];
    case 4:
      return [`${field}|${pick(["lt", "lte", "gt", "gte"])}`, list(() => pick(NUMBERS))];
    case 5:
      return [`${field}|neq${all}`, list(() => chance(0.5) ? pick(NUMBERS) : text(WILD, 1))];
    case 6:
      return [`${field}|fieldref${position}${cased}`, pick(fields)];
    case 7:
      return [`${field}|windash${position}`, list(() => text([...PIECES, "-x", " /c", "--long"], 2))];
    case 8: {
      const encoding = pick(["|wide", "|utf16le", "|utf16be", "|utf16", ""]);
      const base64 = pick(["|base64", "|base64offset"]);
      return [`${field}${encoding}${base64}|contains`, list(() => pick(["curl", "Zzab", "abab"]))];
    }
    case 9:
      return [field, list(() => chance(0.5) ? pick(NUMBERS) : pick(["GET", "A", "NXDOMAIN", "u"]))];
    case 10:
      return [field, chance(0.5) ? "" : chance(0.5)];
    default:
      return [`${field}${position}${cased}${all}`, list(() => text(WILD, 2))];
  }
}

function selectionOf(source: Source): unknown {
  const map = () => Object.fromEntries(Array.from({ length: 1 + below(2) }, () => itemOf(source)));
  if (chance(0.15)) {
    return Array.from({ length: 1 + below(3) }, () => pick(WILD.slice(0, 10)) + pick(["", "*", "?"]));
  }
  if (chance(0.05)) return { [pick(["|all", "|re", "|cased"])]: [pick(["curl", "Zz"]), "a"] };
  return chance(0.2) ? [map(), map()] : map();
}

function conditionOf(names: string[], depth = 0): string {
  const part = () => conditionOf(names, depth + 1);
  switch (depth > 2 ? below(2) : below(8)) {
    case 0:
    case 1:
      return pick(names);
    case 2:
      return `not ${pick(names)}`;
    case 3:
      return `(${part()} or ${part()})`;
    case 4:
      return `${part()} and ${part()}`;
    case 5:
      return `not (${part()})`;
    case 6:
      return `${pick(["1", "any", "all"])} of ${pick(["them", "sel*", "*"])}`;
    default:
      return `${part()} or not ${part()} and ${pick(names)}`;
  }
}

function detectionOf(source: Source): Record<string, unknown> {
  const names = ["sel_a", "sel_b", "other", "_hidden"].slice(0, 1 + below(4));
  const detection = Object.fromEntries(names.map((name) => [name, selectionOf(source)]));
  return {
    ...detection,
    condition: chance(0.1) ? [conditionOf(names), conditionOf(names)] : conditionOf(names),
  };
}

/** Every text of an event's family and its program, for keywords. */
function textsOf(event: Record<string, unknown>): string[] {
  const { event_type, process } = event.common as { event_type: string; process?: unknown };
  const leaves = (value: unknown): string[] =>
    value === undefined || value === null
      ? []
      : typeof value === "object"
      ? Object.values(value).flatMap(leaves)
      : [String(value)];
  return [event[event_type.split(".")[0]], process].flatMap(leaves);
}

Deno.test("every accepted rule gives the verdicts of the oracle", () => {
  let [events, compiled, hits] = [0, 0, 0];
  for (let batch = 0; batch < BATCHES; batch++) {
    const source = pick(Object.keys(SOURCES) as Source[]);
    const detections = Array.from({ length: RULES }, () => detectionOf(source));
    const files = detections.map((detection, at) => ({
      path: `${at}.yml`,
      text: JSON.stringify({ title: `Rule ${at}`, logsource: { category: source }, detection }),
    }));
    const { plan, outcomes } = compileRules(files, { pack_id: "test" });
    for (const { status, reasons } of outcomes) {
      assert(status === "compiled" || status === "never_matches", JSON.stringify(reasons));
    }
    const ids = outcomes.map(({ status, id }) => status === "compiled" ? id : undefined);
    compiled += plan.rules.length;
    // The same rules twice: as they are, and as they travel.
    const engine = new RuleEngine([JSON.parse(JSON.stringify(plan))]);
    for (let at = 0; at < EVENTS; at++) {
      const record = recordOf(source);
      const event = SOURCES[source].event(record);
      const found = engine.match(event as unknown as Matchable).map(({ id }) => id);
      const all = textsOf(event);
      for (const [rule, detection] of detections.entries()) {
        const expected = verdict(detection, record, all);
        hits += Number(expected);
        const actual = ids[rule] !== undefined && found.includes(ids[rule]);
        assertEquals(actual, expected, JSON.stringify({ detection, record }, null, 1));
      }
      events++;
    }
  }
  assert(events >= 10_000 && compiled > 500, `${events} events, ${compiled} rules`);
  assert(hits > 10_000 && hits < events * RULES * 0.8, `${hits} hits`);
});
