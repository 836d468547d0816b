/** Test events for the sinks of corp.toml, and the routes of both. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import { dirname, join } from "node:path";
import { routeSinks } from "../../../cmd/service/routes/sinks.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { SinkList, SinkTrials } from "../../../lib/client/api/schema.ts";
import { CorpFile } from "../../../lib/config/corp/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { EventFeeds, type FeedSources } from "../../../lib/service/record/event_feed.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { execEvent, SESSION } from "../../helper/ledger.ts";

Deno.test("each sink gets a test event, redacted and past its filter; a failure of TLS names the authorities", async () => {
  const dir = await Deno.makeTempDir();
  const { cert, key } = await (await openCa({ dir })).leaf("localhost");
  const got: { path: string; body: string }[] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    got.push({ path: new URL(request.url).pathname, body: await request.text() });
    return Response.json({});
  });
  await using secure = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {}, cert, key },
    () => Response.json({}),
  );
  const { port } = secure.addr;
  const plain = `http://127.0.0.1:${server.addr.port}`;
  const { sinks } = CorpFile.parse({
    sinks: [
      { id: "otel", form: "otlp", url: plain, families: ["http"], redact: { "process.command": "remove" } },
      { id: "file", form: "file", url: `file://${dir}/events.jsonl` },
      { id: "hec", form: "hec", url: `https://localhost:${port}` },
      { id: "syslog", form: "syslog", url: `tls://localhost:${port}` },
      { id: "nobody", form: "hec", url: "http://127.0.0.1:1" },
    ],
  });
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const feeds = new EventFeeds({
    home,
    corp: { state: { status: "ok", config: { file: { sinks } } } },
    registry: { alive: () => [] },
    sessions: { get: () => Promise.resolve(undefined) },
  } as unknown as FeedSources);
  const app = new Hono();
  routeSinks(app, feeds);
  const path = sessionPaths(home, SESSION).ledger;
  await Deno.mkdir(dirname(path), { recursive: true });
  {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
  }

  const trials = await (await app.request("/corp/sinks/try", { method: "POST" })).json();
  const { sinks: tried } = SinkTrials.parse(trials);
  assertEquals(tried.map(({ id, ok }) => [id, ok]), [
    ["otel", true],
    ["file", true],
    ["hec", false],
    ["syslog", false],
    ["nobody", false],
  ]);
  assertEquals(got.map(({ path }) => path), ["/v1/logs", "/v1/traces"]);
  for (const { body } of got) {
    assertStringIncludes(body, tried[0].session_id);
    assert(!body.includes("sbx corp try"));
  }
  assertStringIncludes(await Deno.readTextFile(join(dir, "events.jsonl")), tried[1].session_id);
  const [hec, syslog, away] = tried.slice(2).map(({ error }) => error!);
  assertStringIncludes(
    hec,
    `https://localhost:${port} has a certificate of an authority that is not trusted`,
  );
  assertStringIncludes(hec, "network.extra_ca_file");
  assertStringIncludes(
    syslog,
    "has a certificate of an authority that is not trusted (authorities: the machine's)",
  );
  assertStringIncludes(away, "http://127.0.0.1:1 cannot be reached");

  // A test moves no cursor: the ledger's event still waits for each.
  const standing = await (await app.request("/corp/sinks")).json();
  assertEquals(
    SinkList.parse(standing).sinks.map(({ id, lag }) => [id, lag]),
    tried.map(({ id }) => [id, 1]),
  );
  await feeds.close();
  await Deno.remove(dir, { recursive: true });
});
