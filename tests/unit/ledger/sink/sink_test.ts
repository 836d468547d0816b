/** Delivery of findings to real receivers, with outages, restarts and rejections. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { DetectionFinding } from "../../../../lib/detection/mod.ts";
import type { Event } from "../../../../lib/event/mod.ts";
import { FindingSinks, type SinksOptions } from "../../../../lib/ledger/sink/mod.ts";
import { httpEvent } from "../../../helper/detection.ts";
import type { Parsed } from "../../../helper/json.ts";
import { requireDetectionFinding } from "../../../helper/ocsf.ts";

const EVENT = httpEvent(1, {
  host: "paste.example",
  headers: { cookie: ["session=abc"] },
  body: { state: "text", text: "the body", truncated: false },
}) as unknown as Event;

const finding = (id: number): DetectionFinding => ({
  finding_id: `finding-${id}`,
  event_id: EVENT.common.event_id,
  rule_id: "upload",
  pack_id: "test.pack",
  title: "Upload",
  severity: "high",
  confidence: "medium",
  tags: ["exfil"],
});

const ids = (count: number, from = 0) => Array.from({ length: count }, (_, at) => `finding-${from + at}`);
const FAST = { firstMs: 10, maxMs: 40 };

/** HTTP receiver on its own port; `respond` builds its response to each request. */
class Receiver {
  readonly bodies: Parsed[] = [];
  readonly headers: Headers[] = [];
  readonly paths: string[] = [];
  respond: () => Response = () => new Response(null, { status: 204 });
  #server?: Deno.HttpServer<Deno.NetAddr>;
  port = 0;

  start(): this {
    this.#server = Deno.serve({ port: this.port, hostname: "127.0.0.1", onListen() {} }, async (request) => {
      const body = await request.json();
      const response = this.respond();
      if (response.status < 300) this.bodies.push(body);
      this.headers.push(request.headers);
      this.paths.push(new URL(request.url).pathname);
      return response;
    });
    this.port = this.#server.addr.port;
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    await this.#server?.shutdown();
  }
}

async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!await condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

async function withSinks(
  options: Omit<SinksOptions, "dir">,
  run: (sinks: FindingSinks, dir: string) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  const sinks = await FindingSinks.open({ dir, backoff: FAST, ...options });
  try {
    await run(sinks, dir);
  } finally {
    await sinks.close();
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("OCSF: one Detection Finding per POST, without bodies, headers or passwords", async () => {
  const receiver = new Receiver().start();
  const endpoint = `${receiver.url}/in?x=1`;
  const authorize = () => Promise.resolve("Bearer pass");
  await withSinks({ http: { endpoint, authorize } }, async (sinks) => {
    for (let at = 0; at < 3; at++) sinks.send(finding(at), EVENT);
    await waitUntil(() => receiver.bodies.length === 3);
    const [event] = receiver.bodies;
    assertEquals(receiver.bodies.map(({ finding_info: { uid } }) => uid), ids(3));
    assertEquals([event.class_uid, event.category_uid, event.type_uid, event.activity_id], [
      2004,
      2,
      200401,
      1,
    ]);
    assertEquals([event.severity_id, event.confidence_id, event.time], [
      4,
      2,
      EVENT.common.timestamp_unix_ms,
    ]);
    assertEquals(event.finding_info.analytic, {
      uid: "upload",
      name: "Upload",
      category: "http",
      type: "Rule",
      type_id: 1,
    });
    requireDetectionFinding(event);
    assertEquals(event.observables[0], {
      name: "evidences[0].dst_endpoint.hostname",
      type_id: 1,
      type: "Hostname",
      value: "paste.example",
    });
    const text = JSON.stringify(receiver.bodies);
    for (const secret of ["the body", "session=abc", "pass"]) assert(!text.includes(secret), secret);
    assertEquals(receiver.headers[0].get("authorization"), "Bearer pass");
    assertEquals(receiver.headers[0].get("idempotency-key"), "finding-0");
    assertEquals(receiver.paths[0], "/in");
  });
  await receiver.stop();
});

Deno.test("OTLP: batches of up to 100 logs, posted to /v1/logs", async () => {
  const receiver = new Receiver().start();
  await withSinks({ otlp: { endpoint: receiver.url } }, async (sinks) => {
    for (let at = 0; at < 250; at++) sinks.send(finding(at), EVENT);
    const records = () =>
      receiver.bodies.flatMap(({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }) => logRecords);
    await waitUntil(() => records().length === 250);
    assert(receiver.bodies.length < 20, `${receiver.bodies.length} requests`);
    const [record] = records();
    assertEquals([record.severityNumber, record.severityText, record.body], [17, "ERROR", {
      stringValue: "Upload",
    }]);
    assertEquals(record.timeUnixNano, `${EVENT.common.timestamp_unix_ms}000000`);
    const attribute = (key: string) => record.attributes.find((each: Parsed) => each.key === key)?.value;
    assertEquals(attribute("sbx.finding.id"), { stringValue: "finding-0" });
    assertEquals(attribute("sbx.finding.tags"), { arrayValue: { values: [{ stringValue: "exfil" }] } });
    assertEquals(attribute("sbx.subject.port"), { intValue: "443" });
    assertEquals(receiver.paths[0], "/v1/logs");
  });
  await receiver.stop();
});

Deno.test("an unreachable sink receives queued findings later, in order, also after a restart; the others do not wait", async () => {
  const receiver = new Receiver().start();
  await receiver.stop();
  const dir = await Deno.makeTempDir();
  const audit = { path: `${dir}/audit/findings.jsonl` };
  const problems: string[] = [];
  const options = {
    dir: `${dir}/queue`,
    audit,
    http: { endpoint: `${receiver.url.replace("//", "//u:hidden@")}/` },
    backoff: FAST,
    onProblem: (message: string) => void problems.push(message),
  };
  const lines = async () => (await Deno.readTextFile(audit.path).catch(() => "")).split("\n").filter(Boolean);
  let sinks = await FindingSinks.open(options);
  for (let at = 0; at < 50; at++) sinks.send(finding(at), EVENT);
  await waitUntil(async () => (await lines()).length === 50);
  await waitUntil(() => sinks.status()[1].last_error !== null);
  await waitUntil(() => sinks.status()[0].sent === 50);
  assertEquals(sinks.status().map(({ name, sent }) => [name, sent]), [["audit", 50], ["http", 0]]);
  assertEquals(sinks.status()[1].last_error, `${receiver.url} cannot be reached`);
  assert(problems.every((message) => !message.includes("hidden")), problems.join());
  assertEquals(problems.length, 1, "one message per outage");
  await sinks.close();
  sinks = await FindingSinks.open(options);
  for (let at = 50; at < 60; at++) sinks.send(finding(at), EVENT);
  receiver.start();
  await waitUntil(() => receiver.bodies.length === 60);
  assertEquals(receiver.bodies.map(({ finding_info: { uid } }) => uid), ids(60));
  await waitUntil(() => sinks.status()[1].queued_bytes === 0);
  assertEquals(sinks.status()[1].last_error, null);
  await sinks.close();
  await receiver.stop();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("errors of a receiver: retried, except for rejected findings", async () => {
  const receiver = new Receiver().start();
  const statuses = [500, 429, 401, 302, 400];
  receiver.respond = () => new Response("x", { status: statuses.shift() ?? 200 });
  await withSinks({ http: { endpoint: receiver.url } }, async (sinks, dir) => {
    sinks.send(finding(0), EVENT);
    sinks.send(finding(1), EVENT);
    await waitUntil(() => receiver.bodies.length === 1);
    // The first was rejected in the end and stored, and did not block the second.
    assertEquals(receiver.bodies[0].finding_info.uid, "finding-1");
    await waitUntil(() => sinks.status()[0].sent === 1);
    assertEquals(sinks.status()[0].refused, 1);
    const rejected = await Deno.readTextFile(`${dir}/http/refused.jsonl`);
    assertEquals(JSON.parse(rejected).finding.finding_id, "finding-0");
  });
  await receiver.stop();
});

Deno.test("OTLP: one rejected record does not affect the rest of its batch", async () => {
  const receiver = new Receiver().start();
  let requests = 0;
  receiver.respond = () =>
    new Response(null, { status: requests++ === 0 ? 500 : requests === 2 ? 400 : 200 });
  await withSinks({ otlp: { endpoint: `${receiver.url}/otel/v1/logs` } }, async (sinks) => {
    for (let at = 0; at < 5; at++) sinks.send(finding(at), EVENT);
    await waitUntil(() => sinks.status()[0].queued_bytes === 0);
    const { sent, refused } = sinks.status()[0];
    assertEquals(sent + refused, 5);
    assertEquals(receiver.paths[0], "/otel/v1/logs");
  });
  await receiver.stop();
});

Deno.test("a queue is bounded, reports when it is full, and belongs to one process", async () => {
  const receiver = new Receiver().start();
  await receiver.stop();
  const problems: string[] = [];
  await withSinks({
    http: { endpoint: receiver.url },
    maxBytes: 5000,
    onProblem: (text) => void problems.push(text),
  }, async (sinks, dir) => {
    for (let at = 0; at < 100; at++) sinks.send(finding(at), EVENT);
    const [{ dropped, queued_bytes }] = sinks.status();
    assert(dropped > 50 && dropped < 100, `${dropped}`);
    assert(queued_bytes <= 5000);
    assertEquals(problems.filter((text) => text.includes("is full")).length, 1);
    const error = await assertRejects(
      () => FindingSinks.open({ dir, http: { endpoint: receiver.url } }),
      SbxError,
    );
    assertEquals(error.code, "sink.conflict");
  });
});

Deno.test("a line cut off by a crash is skipped, and the lines around it arrive", async () => {
  const receiver = new Receiver().start();
  await receiver.stop();
  const dir = await Deno.makeTempDir();
  const options = { dir, http: { endpoint: receiver.url }, backoff: FAST };
  const first = await FindingSinks.open(options);
  first.send(finding(0), EVENT);
  await first.close(0);
  const [segment] = [...Deno.readDirSync(`${dir}/http`)].filter(({ name }) => name.endsWith(".jsonl"));
  await Deno.writeTextFile(`${dir}/http/${segment.name}`, '{"schema":"sbx.finding', { append: true });
  await Deno.writeTextFile(`${dir}/http/position.json`, "{");
  receiver.start();
  const second = await FindingSinks.open(options);
  second.send(finding(1), EVENT);
  await waitUntil(() => receiver.bodies.length === 2);
  assertEquals(receiver.bodies.map(({ finding_info: { uid } }) => uid), ids(2));
  await second.close();
  await receiver.stop();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("routes: the audit file gets every finding, other sinks those their pack routes to them", async () => {
  const [ocsf, otlp] = [new Receiver().start(), new Receiver().start()];
  const dir = await Deno.makeTempDir();
  const audit = { path: `${dir}/f.jsonl` };
  await withSinks({ audit, http: { endpoint: ocsf.url }, otlp: { endpoint: otlp.url } }, async (sinks) => {
    sinks.send({ ...finding(0), export_routes: ["http"] }, EVENT);
    sinks.send({ ...finding(1), export_routes: ["otlp"] }, EVENT);
    sinks.send(finding(2), EVENT);
    await waitUntil(() => sinks.status().every(({ queued_bytes }) => queued_bytes === 0));
    assertEquals(sinks.status().map(({ name, sent }) => [name, sent]), [["audit", 3], ["http", 2], [
      "otlp",
      2,
    ]]);
  });
  await Promise.all([ocsf.stop(), otlp.stop()]);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("the audit file rotates at its maximum size, and keeps a maximum number of files", async () => {
  const dir = await Deno.makeTempDir();
  await withSinks({ audit: { path: `${dir}/f.jsonl`, maxBytes: 4000, keep: 2 } }, async (sinks) => {
    for (let at = 0; at < 60; at++) {
      sinks.send(finding(at), EVENT);
      if (at % 5 === 4) await waitUntil(() => sinks.status()[0].queued_bytes === 0);
    }
    assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name).sort(), [
      "f.jsonl",
      "f.jsonl.1",
      "f.jsonl.2",
    ]);
    const lines = (await Deno.readTextFile(`${dir}/f.jsonl`)).trim().split("\n").map((line) =>
      JSON.parse(line)
    );
    assertEquals(lines.at(-1).finding.finding_id, "finding-59");
    assertEquals((await Deno.stat(`${dir}/f.jsonl`)).mode! & 0o777, 0o600);
  });
  await Deno.remove(dir, { recursive: true });
});
