/** Events for OpenTelemetry, judged by the published protobuf schema. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Event } from "../../../../lib/event/mod.ts";
import { Ledger } from "../../../../lib/ledger/mod.ts";
import { Feed, senderOf } from "../../../../lib/ledger/feed/mod.ts";
import { FeedSink } from "../../../../lib/ledger/feed/schema.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../../helper/ledger.ts";
import { assertOtlp } from "../../../helper/otlp.ts";

type Fields = Record<string, unknown>;

interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status?: { code: number };
  attributes: Fields;
}

/** A collector on loopback that checks each request against the schema. */
async function withCollector(
  run: (url: string, got: { logs: Span[]; spans: Span[]; paths: string[] }) => Promise<void>,
  answer: (path: string) => Response = () => Response.json({}),
): Promise<void> {
  const got = { logs: [] as Span[], spans: [] as Span[], paths: [] as string[] };
  const problems: unknown[] = [];
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      got.paths.push(pathname);
      const body = await request.json();
      try {
        assertOtlp(pathname, body);
      } catch (error) {
        problems.push(error);
      }
      for (const { resource, scopeLogs } of body.resourceLogs ?? []) {
        assertEquals(valuesOf(resource.attributes)["service.name"], "sbx");
        got.logs.push(...scopeLogs[0].logRecords.map(flat));
      }
      for (const { scopeSpans } of body.resourceSpans ?? []) got.spans.push(...scopeSpans[0].spans.map(flat));
      return answer(pathname);
    },
  );
  await run(`http://127.0.0.1:${server.addr.port}`, got);
  assertEquals(problems, []);
}

function flat(item: { attributes: { key: string; value: Fields }[] }): Span {
  return { ...item as unknown as Span, attributes: valuesOf(item.attributes) };
}

function valuesOf(attributes: { key: string; value: Fields }[]): Fields {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

function feedOf(path: string, terms: Fields): Feed {
  const sink = FeedSink.parse({ id: "otel", form: "otlp", ...terms });
  return new Feed({
    sink,
    sender: senderOf(sink),
    dir: `${path}.cursors`,
    ledgerOf: () => path,
    contextOf: () => Promise.resolve({ vm_name: "box", made_by: { user: "u", device: "d", client: "c" } }),
  });
}

const run = (feed: Feed, now?: number) => feed.round([SESSION], () => true, now);

function processOf(event: Event, pid: number, ppid: number, at: number): Event {
  const { executable, command, cwd } = event.process?.activity ??
    { executable: "/bin/ls", command: "ls -l", cwd: "/root" };
  event.common.process = { pid, ppid, executable, command, cwd };
  event.common.timestamp_unix_ms = at;
  return event;
}

function exitEvent(pid: number, ppid: number, at: number, exit_code = 0): Event {
  const event = execEvent();
  event.common.event_type = "process.exit";
  Object.assign(event.process!.activity, { operation: "exit", exit_code });
  return processOf(event, pid, ppid, at);
}

const T = 1_700_000_000_000;

Deno.test("a session is one trace: programs, their requests below them, and a model call by the conventions", () =>
  withLedgerPath((path) =>
    withCollector(async (url, { logs, spans, paths }) => {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const body = { state: "missing", truncated: false };
      const call = requestEvent("model.call", {
        operation: "messages",
        body,
        messages_count: 1,
        tools_count: 0,
      });
      const model = processOf(call, 8, 7, T + 20);
      const blocked = processOf(requestEvent("http.request", { path: "/ü\n" }), 8, 7, T + 30);
      ledger.append({ event: processOf(execEvent("parent"), 7, 1, T) });
      ledger.append({ event: processOf(execEvent("child"), 8, 7, T + 10) });
      ledger.append({ event: model, decision: { decision: "allow" } });
      ledger.append({ event: blocked, decision: { decision: "block", rule: { id: "corp-1" } } });
      ledger.append({ event: exitEvent(8, 7, T + 40, 3) });
      await ledger.flush();
      const feed = feedOf(path, { url });
      await run(feed);
      // A request without an end has no span yet.
      assertEquals(logs.map(({ attributes }) => attributes["sbx.event.type"]), [
        "process.exec",
        "process.exec",
        "model.call",
        "http.request",
        "process.exit",
      ]);
      assertEquals(spans.map(({ name }) => name), ["/bin/ls"]);
      const [child] = spans.splice(0);
      assertEquals(
        [child.startTimeUnixNano, child.endTimeUnixNano],
        [T + 10, T + 40].map((ms) => `${ms}000000`),
      );
      assertEquals(child.status, { code: 2 });
      // The log records of a program name its span, and the request's its own.
      assertEquals([logs[1].spanId, logs[4].spanId], [child.spanId, child.spanId]);
      assertEquals(child.parentSpanId, logs[0].spanId);

      const response = { status: 200, input_tokens: 12, output_tokens: 3, tool_calls: [] };
      ledger.end({ event_id: model.common.event_id, response, duration_ms: 2.5 });
      ledger.end({ event_id: blocked.common.event_id, error: "blocked" });
      ledger.append({ event: exitEvent(7, 1, T + 50) });
      await ledger.flush();
      await run(feed);
      const parent = spans.find(({ spanId }) => spanId === logs[0].spanId)!;
      assertEquals([parent.parentSpanId, parent.status], [undefined, undefined]);
      const ai = spans.find(({ name }) => name === "chat m-1")!;
      assertEquals([ai.kind, ai.parentSpanId, ai.status], [3, child.spanId, undefined]);
      assertEquals(BigInt(ai.endTimeUnixNano) - BigInt(ai.startTimeUnixNano), 2_500_000n);
      const { attributes } = ai;
      assertEquals(
        Object.fromEntries(Object.entries(attributes).filter(([key]) => key.startsWith("gen_ai."))),
        {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "anthropic",
          "gen_ai.request.model": "m-1",
          "gen_ai.usage.input_tokens": "12",
          "gen_ai.usage.output_tokens": "3",
        },
      );
      const http = spans.find(({ name }) => name === "GET")!;
      assertEquals([http.status, http.attributes["sbx.decision"]], [{ code: 2 }, "block"]);
      assertEquals(new Set([...spans, ...logs].map(({ traceId }) => traceId)).size, 1);
      assert(/^(?!0{32})[0-9a-f]{32}$/.test(http.traceId));
      assertEquals(new Set(paths), new Set(["/v1/logs", "/v1/traces"]));
    })
  ));

Deno.test("a restart gives a span the same id; a pid that is used again is another program", () =>
  withLedgerPath((path) =>
    withCollector(async (url, { spans }) => {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (const at of [T, T + 10]) {
        ledger.append({ event: processOf(execEvent(`at ${at}`), 9, 1, at) });
        // The process runs another program, and stays the process.
        ledger.append({ event: processOf(execEvent("then"), 9, 1, at + 1) });
        ledger.append({ event: exitEvent(9, 1, at + 2) });
      }
      await ledger.flush();
      await run(feedOf(path, { url, signals: ["traces"] }));
      const first = spans.splice(0);
      assertEquals(
        first.map(({ startTimeUnixNano }) => startTimeUnixNano),
        [T, T + 10].map((ms) => `${ms}000000`),
      );
      assertNotEquals(first[0].spanId, first[1].spanId);
      await Deno.remove(`${path}.cursors`, { recursive: true });
      await run(feedOf(path, { url, signals: ["traces"] }));
      assertEquals(spans, first);
    })
  ));

Deno.test("what a collector rejects is counted, and never as more than there was; redaction holds for spans too", () =>
  withLedgerPath((path) =>
    withCollector(async (url, got) => {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: processOf(execEvent("secret-word"), 5, 1, T) });
      ledger.append({ event: exitEvent(5, 1, T + 1) });
      await ledger.flush();
      const feed = feedOf(path, { url, redact: { "process.command": "remove" } });
      await run(feed);
      assertEquals([feed.status().sent, feed.status().refused], [0, 2]);
      assertEquals([got.logs.length, got.spans.length], [2, 1]);
      assert(!JSON.stringify(got).includes("secret-word"));
    }, () => Response.json({ partialSuccess: { rejectedLogRecords: "900", rejectedSpans: -4 } }))
  ));

Deno.test("the judge refuses a field that the schema does not have, and an address of another form is refused", () => {
  const record = { resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: "1" }] }] }] };
  assertOtlp("/v1/logs", record);
  Object.assign(record.resourceLogs[0].scopeLogs[0].logRecords[0], { severity: 9 });
  assertThrows(() => assertOtlp("/v1/logs", record));
  for (
    const [terms, message] of [
      [{ url: "tls://otel.example" }, "must be a URL with https://"],
      [{ form: "hec", url: "https://splunk.example", signals: ["logs"] }, "is for the form otlp"],
      [{ url: "http://otel.example" }, "without TLS"],
    ] as const
  ) {
    const { error } = FeedSink.safeParse({ id: "otel", form: "otlp", ...terms });
    assertStringIncludes(JSON.stringify(error?.issues), message);
  }
});
