/** Feeds of every event: receivers on this machine's loopback, and ledgers on disk. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { CorpFile } from "../../../../lib/config/corp/mod.ts";
import { Ledger } from "../../../../lib/ledger/mod.ts";
import { Feed, senderOf } from "../../../../lib/ledger/feed/mod.ts";
import { FeedSink } from "../../../../lib/ledger/feed/schema.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../../helper/ledger.ts";

const sinkOf = (terms: Record<string, unknown>) => FeedSink.parse({ id: "siem", ...terms });

function feedOf(path: string, sink: FeedSink, heldBytes?: number): Feed {
  return new Feed({
    sink,
    sender: senderOf(sink),
    dir: `${path}.cursors`,
    ledgerOf: () => path,
    contextOf: () => Promise.resolve({ vm_name: "box" }),
    ...(heldBytes !== undefined && { heldBytes }),
  });
}

const run = (feed: Feed, now?: number) => feed.round([SESSION], () => true, now);

interface Certificate {
  cert: string;
  key: string;
  ca: string;
}

async function makeCertificate(dir: string): Promise<Certificate> {
  const [cert, key] = [join(dir, "cert.pem"), join(dir, "key.pem")];
  const { success } = await new Deno.Command("openssl", {
    args: ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
      .concat([
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        key,
        "-out",
        cert,
      ])
      .concat(["-addext", "basicConstraints=critical,CA:FALSE"]),
    stderr: "null",
  }).output();
  assert(success);
  return { cert: await Deno.readTextFile(cert), key: await Deno.readTextFile(key), ca: cert };
}

/** Parses messages by the octet counts of RFC 5425 and the grammar of RFC 5424. */
function messagesOf(bytes: Uint8Array): { head: string; body: Record<string, unknown> }[] {
  const messages = [];
  const text = new TextDecoder().decode(bytes);
  for (let at = 0; at < text.length;) {
    const [length] = /^[1-9]\d*(?= )/.exec(text.slice(at))!;
    const from = at + length.length + 1;
    at = from + Number(length);
    const [, head, body] = /^(<\d{1,3}>1 \S+ \S+ \S+ \S+ \S+ -) ([\x20-\x7e]+)$/.exec(text.slice(from, at))!;
    messages.push({ head, body: JSON.parse(body) });
  }
  return messages;
}

Deno.test("syslog over TLS gets each event, and its end later; a receiver that is away loses none", () =>
  withLedgerPath(async (path) => {
    const { cert, key, ca } = await makeCertificate(join(path, ".."));
    const server = Deno.listenTls({ hostname: "127.0.0.1", port: 0, cert, key });
    const { port } = server.addr as Deno.NetAddr;
    const sink = sinkOf({ form: "syslog", url: `tls://localhost:${port}`, ca_file: ca });
    const take = async () => {
      const connection = await server.accept();
      const bytes = new Uint8Array(await new Response(connection.readable).arrayBuffer());
      return messagesOf(bytes);
    };
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    const http = requestEvent("http.request", { path: "/ü\n" });
    ledger.append({ event: http, decision: { decision: "block", rule: { id: "corp-1" } } });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    const feed = feedOf(path, sink);
    let [messages] = await Promise.all([take(), run(feed)]);
    assertEquals(messages.map(({ body }) => body.class_uid), [4002, 1007]);
    assert(messages[0].head.startsWith("<108>1 ") && messages[0].head.endsWith(" sbx - http.request -"));
    assertEquals([messages[0].body.action_id, messages[0].body.disposition_id], [2, 2]);
    assertStringIncludes(JSON.stringify(messages[0].body), "corp-1");

    // The end of an event comes later; nothing else is sent again.
    ledger.end({ event_id: http.common.event_id, response: { status: 403 } });
    await ledger.flush();
    [messages] = await Promise.all([take(), run(feed)]);
    assertEquals(messages.map(({ body }) => (body.http_response as { code: number }).code), [403]);
    await run(feed);
    assertEquals(feed.status(), {
      id: "siem",
      form: "syslog",
      owner: "corp",
      sent: 3,
      refused: 0,
      set_aside: 0,
      set_aside_file: null,
      dropped: 0,
      lag: 0,
      last_error: null,
    });

    // Closed: the events wait, the error names receiver and authorities, and another process sends the rest.
    server.close();
    ledger.append({ event: execEvent("late") });
    await ledger.flush();
    await run(feed);
    assertEquals(feed.status().lag, 1);
    assertStringIncludes(feed.status().last_error!, `localhost:${port} cannot be reached`);
    assertStringIncludes(feed.status().last_error!, ca);
    const again = Deno.listenTls({ hostname: "127.0.0.1", port, cert, key });
    const [[message]] = await Promise.all([
      again.accept().then(async ({ readable }) =>
        messagesOf(new Uint8Array(await new Response(readable).arrayBuffer()))
      ),
      run(feedOf(path, sink)),
    ]);
    assertStringIncludes(JSON.stringify(message.body), "late");
    again.close();
  }));

Deno.test("a certificate of another authority stops a feed, and nothing is sent", () =>
  withLedgerPath(async (path) => {
    const { cert, key } = await makeCertificate(join(path, ".."));
    const server = Deno.listenTls({ hostname: "127.0.0.1", port: 0, cert, key });
    const { port } = server.addr as Deno.NetAddr;
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    const feed = feedOf(path, sinkOf({ form: "syslog", url: `tls://localhost:${port}` }));
    const served = server.accept().then(async (connection) => {
      const read = await connection.read(new Uint8Array(1)).catch(() => null);
      connection.close();
      return read;
    });
    await run(feed);
    assertEquals(await served, null);
    assertStringIncludes(feed.status().last_error!, "authorities: the machine's");
    assertEquals(feed.status().lag, 1);
    server.close();
  }));

/** Runs with a receiver on loopback that answers each request. */
async function withReceiver(
  answer: (body: string, request: Request) => Response,
  run: (url: string) => Promise<void>,
): Promise<void> {
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => answer(await request.text(), request),
  );
  await run(`http://127.0.0.1:${server.addr.port}`);
}

Deno.test("Splunk gets one object for each event; one that it refuses stops no other, and 503 is tried later", () =>
  withLedgerPath(async (path) => {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    for (const command of ["one", "two", "bad", "four"]) ledger.append({ event: execEvent(command) });
    await ledger.flush();
    const got: string[] = [];
    let isAway = true;
    await withReceiver((body, { url }) => {
      assertEquals(new URL(url).pathname, "/services/collector/event");
      if (isAway) return new Response(null, { status: 503, headers: { "retry-after": "30" } });
      const events = body.split("\n").map((line) => JSON.parse(line));
      if (body.includes('"bad"')) return new Response(null, { status: 400 });
      for (const { event, sourcetype, fields } of events) {
        assertEquals(sourcetype, "sbx:ocsf");
        assertEquals(fields.session_id, "session-1");
        got.push(event.process.cmd_line);
      }
      return Response.json({ text: "Success", code: 0 });
    }, async (url) => {
      const feed = feedOf(path, sinkOf({ form: "hec", url }));
      await run(feed, 1000);
      isAway = false;
      await run(feed, 30_999);
      assertEquals([got, feed.status().lag], [[], 4]);
      await run(feed, 31_001);
    });
    assertEquals(got, ["one", "two", "four"]);
  }));

Deno.test("Elastic gets bulk lines with ids of their own; filter and redaction hold", () =>
  withLedgerPath(async (path) => {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent("never-sent"), decision: { decision: "allow" } });
    ledger.append({
      event: requestEvent("http.request", { path: "/secret-path" }),
      decision: { decision: "block" },
    });
    await ledger.flush();
    const bodies: string[] = [];
    await withReceiver((body, { url }) => {
      assertEquals(new URL(url).pathname, "/sbx-events/_bulk");
      bodies.push(body);
      return Response.json({ errors: true, items: [{ create: { status: 409 } }] });
    }, async (url) => {
      const terms = { decisions: ["block"], redact: { "http.path": "hash", "http.host": "remove" } };
      const feed = feedOf(path, sinkOf({ form: "elastic", url, ...terms }));
      await run(feed);
      assertEquals([feed.status().sent, feed.status().refused, feed.status().lag], [1, 0, 0]);
    });
    const [body] = bodies;
    const lines = body.trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(lines[0], { create: { _id: "session-1:2" } });
    assertEquals(lines[1].ocsf.class_uid, 4002);
    assert(!/secret-path|never-sent|api\.example\.com/.test(body));
    assertStringIncludes(body, "sha256:");
  }));

Deno.test("a ledger stays for a sink that is away, and losses beyond the bound are counted", () =>
  withLedgerPath(async (path) => {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    const sink = sinkOf({ form: "file", url: `file://${path}.jsonl` });
    assertEquals(await feedOf(path, sink).release(SESSION), false);
    const full = feedOf(path, sink, 1);
    assertEquals([await full.release(SESSION), full.status().dropped], [true, 1]);
    const feed = feedOf(path, sink);
    await run(feed);
    assertEquals(await feed.release(SESSION), true);
    const [line, ...rest] = (await Deno.readTextFile(`${path}.jsonl`)).trimEnd().split("\n");
    assertEquals([JSON.parse(line).class_uid, rest], [1007, []]);
  }));

Deno.test("a damaged ledger stays, and stops no removal of others", () =>
  withLedgerPath(async (path) => {
    await Deno.writeTextFile(path, "no database, and longer than the head of one".repeat(100));
    const feed = feedOf(path, sinkOf({ form: "file", url: `file://${path}.jsonl` }));
    assertEquals(await feed.release(SESSION), false);
  }));

Deno.test("a sink of corp.toml with a wrong address, an unknown key or a secret is refused", () => {
  const sink = { id: "a", form: "syslog", url: "tls://siem.example" };
  assertEquals(CorpFile.parse({ sinks: [sink] }).sinks[0].redact, {});
  for (
    const [wrong, message] of [
      [{ url: "udp://siem.example" }, "must be a URL with tls://"],
      [{ form: "hec", url: "http://siem.example" }, "without TLS"],
      [{ form: "hec", url: "https://u:p@siem.example" }, "without a user"],
      [{ form: "hec", url: "https://siem.example?token=x" }, "without a user"],
      [{ ca_file: "siem-ca.pem" }, "must be an absolute path"],
      [{ token: "x" }, "Unrecognized key"],
      [{ form: "hec", url: "https://siem.example", credential_ref: "x" }, "never the secret"],
      [{ redact: { path: "hash" } }, "a family and a field"],
    ] as const
  ) {
    const { error } = CorpFile.safeParse({ sinks: [{ ...sink, ...wrong }] });
    assertStringIncludes(JSON.stringify(error?.issues), message);
  }
  const twice = CorpFile.safeParse({ sinks: [sink, sink] });
  assertStringIncludes(twice.error!.message, "names another sink already");
});

Deno.test("a ledger that another file has replaced is opened again", () =>
  withLedgerPath(async (path) => {
    const feed = feedOf(path, sinkOf({ form: "file", url: `file://${path}.events.jsonl` }));
    const write = async (events: number) => {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 0; at < events; at++) ledger.append({ event: execEvent() });
    };
    await write(1);
    await run(feed);
    assertEquals(feed.status().sent, 1);
    await Deno.rename(path, `${path}.before`);
    await write(3);
    await run(feed);
    assertEquals(feed.status().sent, 3);
    feed.close();
  }));
