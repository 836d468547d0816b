/** Records that are copied from earlier ones, against records of parsed events. */
import { assert, assertEquals } from "@std/assert";
import { canonicalJson } from "../../../../lib/base/json/mod.ts";
import { type EventFamily, type EventType, familyOf } from "../../../../lib/event/mod.ts";
import { RecordCopier } from "../../../../lib/ledger/feed/copy.ts";
import { feedRecordOf, passes } from "../../../../lib/ledger/feed/record.ts";
import { FeedSink } from "../../../../lib/ledger/feed/schema.ts";
import { type EventText, ledgerEventOf } from "../../../../lib/ledger/read/mod.ts";
import { eventCommon, httpRequest, processExec } from "../../../helper/event.ts";

const EVENTS = 2000;
const CONTEXT = { vm_name: "web", made_by: { user: "ann", device: "laptop", client: "cli" } };

/** Values that a guest chooses: plain ones, and ones that no record has as they are. */
const TEXTS = ["/", "/v1/items", "bash", "ls -l /tmp", "a.example", "x".repeat(170), "x".repeat(171)].concat(
  ["", "é", '"', "\\", "\n", '","path":"/x', "\u007f", "\ud800", "y".repeat(2000), '\\","bytes":1,"'],
);
const NUMBERS = [0, 1, 7, 1500, 999_999_999_999_999, 1_000_000_000_000_000];
const BODIES = [{ state: "missing", truncated: false }, {
  ...{ state: "text", text: '{"a":"b\\"c"}', truncated: false },
  size: 12,
}];

/** Choices in an order that is the same in each run; few differ from one event to the next. */
function makePick(seed: number) {
  const random = () => (seed = seed * 1103515245 + 12345 & 0x7fffffff) / 0x80000000;
  return <T>(of: readonly T[]): T => of[random() < 0.6 ? 0 : Math.floor(random() * of.length)];
}
type Pick = ReturnType<typeof makePick>;

const PARTS: Partial<Record<EventType, (pick: Pick) => Record<string, unknown>>> = {
  "http.request": (pick) => ({
    request: httpRequest({
      ...{ path: pick(TEXTS), bytes: pick(NUMBERS), method: pick(["GET", "POST"]) },
      ...{
        headers: pick<Record<string, string[]>>([{}, { path: ["x"], bytes: ["1", '"'] }]),
        query: pick(TEXTS),
      },
    }),
  }),
  "dns.query": (pick) => ({
    request: { qname: pick(TEXTS), qtype: "A", transport: "udp" },
    ...pick([{}, { response: { rcode: "NOERROR", answers: [pick(TEXTS)] } }]),
  }),
  "file.activity": (pick) => ({
    activity: { operation: "write", path: pick(TEXTS), byte_count: pick(NUMBERS), path_class: "project" },
  }),
  "process.exec": (pick) => ({ activity: processExec({ executable: "bash", command: pick(TEXTS) }) }),
  "model.call": (pick) => ({
    request: { provider: "anthropic", model: "m", operation: "chat", body: pick(BODIES) },
    response: { status: 200, input_tokens: pick(NUMBERS), output_tokens: pick(NUMBERS), tool_calls: [] },
  }),
};

function eventAt(sequence: number, pick: Pick): EventText {
  const type = pick(Object.keys(PARTS) as EventType[]);
  const family: EventFamily = familyOf(type);
  const process = {
    pid: pick(NUMBERS),
    ppid: pick([1, 0]),
    executable: "bash",
    command: pick(TEXTS),
    cwd: "/",
  };
  const event = canonicalJson({
    schema_version: 1,
    common: eventCommon(type, {
      ...{ sequence, timestamp_unix_ms: 1_796_000_000_000 + sequence },
      labels: pick<Record<string, string>>([{}, { event_id: "0123456789ab" }]),
      ...pick([{}, { process }]),
      ...pick([{}, { trace_id: pick(TEXTS) }]),
    }),
    [family]: PARTS[type]!(pick),
  });
  const outcome = pick([true, false]) && canonicalJson({
    ...{ event_id: "0123456789ab", number: sequence, duration_ms: 1.5 + sequence },
    ...(family === "http" &&
      { response: { status: pick([200, 404]), bytes: pick(NUMBERS), headers: {}, body: pick(BODIES) } }),
    ...pick<object>([{}, { error: pick(TEXTS) }, {
      decision: { decision: "block", rule: { id: "r", name: pick(TEXTS) }, matched_fields: [pick(TEXTS)] },
    }]),
  });
  const before = pick(["", "row before"]);
  const text = `${before}${event}${outcome || ""}`;
  const end = before.length + event.length;
  return {
    ...{ sequence, text, start: before.length, end },
    outcome: outcome ? { number: sequence, start: end, end: text.length } : undefined,
    decision: pick(["allow", "block", null]),
    rule_id: pick(["allow-all", null]),
  };
}

function sinkOf(terms: Record<string, unknown> = {}): FeedSink {
  return FeedSink.parse({ id: "test", form: "file", url: "file:///tmp/events.jsonl", ...terms });
}

const SINKS: Record<string, Record<string, unknown>> = {
  "whole events": {},
  "redacted ones": { redact: { "http.path": "hash", "dns.qname": "remove", "process.command": "hash" } },
  "filtered ones": { families: ["http", "process"], decisions: ["allow"] },
};

for (const [name, terms] of Object.entries(SINKS)) {
  Deno.test(`copied records have the bytes of mapped ones: ${name}`, () => {
    const sink = sinkOf(terms);
    const pick = makePick(42);
    const copier = new RecordCopier(sink);
    for (const isUpdate of [false, true]) {
      const recordOf = copier.pass(CONTEXT, isUpdate);
      for (let sequence = 1; sequence <= EVENTS; sequence++) {
        if (sequence % 500 === 0) copier.release();
        const text = eventAt(sequence, pick);
        const event = ledgerEventOf(text);
        const record = recordOf(text);
        const mapped = passes(event, sink) ? feedRecordOf(event, sink, CONTEXT, isUpdate) : undefined;
        assertEquals(
          record && { ...record, json: new TextDecoder().decode(record.json) },
          mapped,
          text.text,
        );
      }
    }
  });
}

/** An event whose text is not JSON within a value that no record has. */
function damaged(text: EventText): EventText {
  const at = text.text.indexOf('"query":"') + 9;
  return { ...text, text: `${text.text.slice(0, at)}\\x${text.text.slice(at + 2)}` };
}

Deno.test("an event of a known shape is not parsed", () => {
  const pick = <T>(of: readonly T[]): T => of[0];
  const withQuery = (sequence: number): EventText => {
    const { text, start, end, ...rest } = eventAt(sequence, pick);
    const filled = text.replace('"query":"/"', '"query":"ab"');
    return { ...rest, text: filled, start, end: end + 1, outcome: moved(rest.outcome) };
  };
  const moved = (outcome: EventText["outcome"]) =>
    outcome && { ...outcome, start: outcome.start + 1, end: outcome.end + 1 };
  const recordOf = new RecordCopier(sinkOf()).pass(CONTEXT);
  const first = withQuery(1);
  assert(recordOf(first));
  assert(recordOf(withQuery(2)), "the second one makes the shape");
  const json = new TextDecoder().decode(recordOf(damaged(withQuery(3)))?.json);
  assertEquals(JSON.parse(json).metadata.sequence, 3);
  assertEquals(JSON.parse(json).http_request.url.path, "/");
});
