/** Copied records against records of parsed events: of each family and form, and of hostile texts. */
import { assert, assertEquals } from "@std/assert";
import { canonicalJson } from "../../../../lib/base/json/mod.ts";
import { EVENT_FAMILIES, type EventFamily, type EventType } from "../../../../lib/event/mod.ts";
import { RecordCopier } from "../../../../lib/ledger/feed/copy.ts";
import { feedRecordOf, passes } from "../../../../lib/ledger/feed/record.ts";
import { FeedSink } from "../../../../lib/ledger/feed/schema.ts";
import { type EventText, ledgerEventOf } from "../../../../lib/ledger/read/mod.ts";
import { EXPORTED_FIELDS } from "../../../../lib/ledger/sink/mod.ts";
import { eventCommon } from "../../../helper/event.ts";

const EVENTS = 2000;
const PASS_EVENTS = 50;
/** Events of like kinds. */
const BLOCK = 40;
const CONTEXT = { vm_name: "web", made_by: { user: "ann", device: "laptop", client: "cli" } };
const SECRET = "stays-on-this-machine";

/** Repeats itself for a seed. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(count: number): number {
    this.#state = this.#state * 1103515245 + 12345 & 0x7fffffff;
    return Math.floor(this.#state / 0x80000000 * count);
  }

  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)];
  }
}

const TYPES: Record<EventFamily, EventType> = {
  http: "http.request",
  dns: "dns.query",
  db: "db.statement",
  sign: "sign.request",
  mcp: "mcp.tool_call",
  model: "model.call",
  file: "file.activity",
  process: "process.exit",
  credential: "credential.substitution",
};

const PLAIN = ["/a", "GET", "read", "exit", "10.0.0.1", "::1", "a.example", "<&>%", "sbx.is_cut"].concat(
  ["x".repeat(170), "undefined", "sha256:"],
);
const ODD: unknown[] = [
  ...["", "é", '"', "\\", "\n", "\u007f", "\ud800", "x".repeat(171), "y".repeat(1500), '","path":"/x', "😀"],
  ...[0, -1, 1.5, 1e21, 999_999_999_999_999, 1_000_000_000_000_000, 1e-7, true, false, null],
  ...[[], ["a"], ["a", "b"], [1, [2]], {}, { path: "/x", bytes: 2 }],
];

/** Texts that differ from one event to the next. */
const CHANGING = new Set(
  ["http.path", "dns.qname", "sign.digest", "sign.object", "file.path", "file.name", "process.command"],
);

/** A part of an event: its exported fields, most as events have them, and others that stay here. */
function partOf(dice: Dice, family: EventFamily): Record<string, unknown> {
  const part: Record<string, unknown> = { body: { text: SECRET, path: SECRET }, headers: { host: [SECRET] } };
  for (const field of EXPORTED_FIELDS[family]) {
    const kind = dice.below(100);
    if (kind === 0) continue;
    if (kind === 1) part[field] = dice.of(ODD);
    else if (kind === 2) part[field] = dice.of(PLAIN);
    else if (/bytes|byte_count|tokens/.test(field)) part[field] = 100_000 + dice.below(900_000);
    else if (/port|code|status/.test(field)) part[field] = 80;
    else part[field] = CHANGING.has(`${family}.${field}`) ? `${field}-${dice.below(1e6)}` : field;
  }
  return { ...part, query: SECRET, statement: SECRET, argv: [SECRET], arguments: { path: SECRET } };
}

function eventAt(sequence: number, dice: Dice): EventText {
  // Few families at a time: shapes come again.
  const family = EVENT_FAMILIES[(Math.floor(sequence / BLOCK) + dice.below(2)) % EVENT_FAMILIES.length];
  const process = { pid: 1 + dice.below(9), ppid: dice.below(2), executable: "sh", command: "sh", cwd: "/" };
  const parts = dice.of([["request"], ["request"], ["activity", "response"]]);
  const event = canonicalJson({
    schema_version: 1,
    common: {
      ...eventCommon(TYPES[family], { sequence, timestamp_unix_ms: 1_796_000_000_000 + sequence }),
      ...{ event_type: TYPES[family], labels: { path: SECRET }, trace_id: SECRET },
      ...dice.below(6) === 0 && { process },
    },
    [family]: Object.fromEntries(parts.map((name) => [name, partOf(dice, family)])),
  });
  const outcome = dice.below(2) === 0 ? "" : canonicalJson({
    ...{
      event_id: "0123456789ab",
      number: sequence,
      duration_ms: sequence / 7,
      response: partOf(dice, family),
    },
    ...dice.below(9) === 0 && { error: dice.of(PLAIN) },
    ...dice.below(4) === 0 &&
      { decision: { decision: dice.of(["block", "allow", "ask"]), rule: { id: "r" } } },
  });
  const [decision, rule_id] = dice.of([["allow", "r"], ["allow", "r"], ["block", "r"], [null, null]]);
  return textOf(sequence, event, outcome, decision, rule_id);
}

function textOf(
  sequence: number,
  event: string,
  outcome: string,
  decision: string | null,
  rule_id: string | null,
): EventText {
  const text = `${sequence}${event}${outcome}`;
  const start = `${sequence}`.length;
  const end = start + event.length;
  const ended = outcome === "" ? undefined : { number: sequence, start: end, end: text.length };
  return { sequence, text, start, end, outcome: ended, decision, rule_id };
}

const KEYS = [
  "path",
  "bytes",
  "qname",
  "command",
  "host",
  "method",
  "request",
  "response",
  "common",
  "sequence",
];

/** Other texts of JSON for a number, a key or a text, and keys that come twice. */
const MUTATIONS: ((text: string, dice: Dice) => string)[] = [
  (text, dice) =>
    text.replaceAll(/:(80|\d{6})(?=[,}])/g, `:$1${dice.of(["e1", ".0", "E+2", "0000000000000"])}`),
  (text, dice) => text.replaceAll(/:(?=\d{6}[,}])/g, dice.of([":-", ": "])),
  (text) => text.replaceAll(/"(path|bytes|qname|command|name|digest)":/g, (_, key) => escapedKey(key)),
  (text, dice) => text.replaceAll(new RegExp(`"(${dice.of(KEYS)})":`, "g"), (_, key) => escapedKey(key)),
  (text) => text.replaceAll(/:"([a-z])/g, (_, first) => `:"\\u00${first.charCodeAt(0).toString(16)}`),
  (text, dice) => text.replace(/"(request|activity|response|common)":\{/, `$&"${dice.of(KEYS)}":"twice",`),
  (text, dice) => text.replace(/\}\}(\}?)$/, `,"${dice.of(KEYS)}":"twice"}}$1`),
  (text) => text.replace(/"path":"[^"]*"/, '$&,"path":"/second"'),
  (text) => text.replace(/^\{/, '{"http":{"x":{"path":"/first"}},"__proto__":{"http":1},'),
];

function escapedKey(key: string): string {
  return `"\\u00${key.charCodeAt(0).toString(16)}${key.slice(1)}":`;
}

function mutated(text: EventText, dice: Dice): EventText {
  const event = text.text.slice(text.start, text.end);
  const outcome = text.outcome ? text.text.slice(text.outcome.start) : "";
  const isFirst = dice.below(2) === 0 || outcome === "";
  // The same one for some time: its shape comes again.
  const block = new Dice(Math.floor(text.sequence / BLOCK));
  const mutation = block.of(MUTATIONS);
  const [other, end] = isFirst ? [mutation(event, block), outcome] : [event, mutation(outcome, block)];
  try {
    [other, end].filter((json) => json !== "").forEach((json) => JSON.parse(json));
  } catch {
    return text;
  }
  return textOf(text.sequence, other, end, text.decision, text.rule_id);
}

/** Most bytes of a record; a copied one is in a larger memory that it shares with others. */
const RECORD_BYTES = 64 * 1024;

const SINKS: Record<string, Record<string, unknown>> = {
  "syslog, whole events": { form: "syslog", url: "tls://a.example" },
  "hec, redacted": {
    ...{ form: "hec", url: "https://a.example" },
    redact: {
      ...{ "http.path": "hash", "http.bytes": "remove", "dns.qname": "hash", "process.command": "remove" },
      ...{ "sign.digest": "remove", "file.path": "hash", "model.input_tokens": "hash", "db.host": "hash" },
    },
  },
  "elastic, filtered": {
    ...{ form: "elastic", url: "https://a.example" },
    ...{ families: ["http", "db", "file", "model"], decisions: ["allow", "ask"] },
  },
  "otlp, which copies none": { form: "otlp", url: "https://a.example" },
};

for (const [name, terms] of Object.entries(SINKS)) {
  Deno.test(`records of random events have the bytes of mapped ones: ${name}`, () => {
    const sink = FeedSink.parse({ id: "test", ...terms });
    let copies = 0;
    for (const mutates of [false, true]) {
      const dice = new Dice(mutates ? 7 : 42);
      const copier = new RecordCopier(sink);
      let recordOf = copier.pass(CONTEXT, mutates);
      for (let sequence = 1; sequence <= EVENTS; sequence++) {
        // A pass cuts a few texts only; what it has learned is there in the next one.
        if (sequence % PASS_EVENTS === 0) recordOf = copier.pass(CONTEXT, mutates);
        const made = eventAt(sequence, dice);
        const text = mutates && dice.below(2) === 0 ? mutated(made, dice) : made;
        const event = ledgerEventOf(text);
        const record = recordOf(text);
        const mapped = passes(event, sink) ? feedRecordOf(event, sink, CONTEXT, mutates) : undefined;
        const json = record && new TextDecoder().decode(record.json);
        assertEquals(record && { ...record, json: json! }, mapped, text.text);
        assert(!json?.includes(SECRET), json);
        if (record && record.json.buffer.byteLength > RECORD_BYTES) copies++;
      }
    }
    assert(sink.form === "otlp" ? copies === 0 : copies > EVENTS / 10, `${copies} were copied`);
  });
}
