/** Feeds of the sinks of corp.toml, with receivers on this machine's loopback. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { EventFeeds, type FeedSources } from "../../../lib/service/record/event_feed.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { exists } from "../../helper/exists.ts";
import { execEvent, SESSION } from "../../helper/ledger.ts";
import { eventually } from "../../helper/sbx.ts";

Deno.test("a collector that hangs delays no other one", async () => {
  const dir = await Deno.makeTempDir();
  const hung = Promise.withResolvers<Response>();
  const isAsked = Promise.withResolvers<void>();
  const slow = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => {
    isAsked.resolve();
    return hung.promise;
  });
  let got = Promise.withResolvers<void>();
  const fast = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => {
    got.resolve();
    return new Response("{}");
  });
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const sink = (id: string, { port }: Deno.NetAddr) => ({
    id,
    form: "hec",
    url: `http://127.0.0.1:${port}`,
    redact: {},
  });
  const sinks = [sink("slow", slow.addr), sink("fast", fast.addr)];
  const file = { sinks };
  const feeds = new EventFeeds({
    home,
    corp: { state: { status: "ok", config: { file } } },
    registry: { alive: () => [{ record: { id: SESSION } }] },
    sessions: { get: () => Promise.resolve(undefined) },
  } as unknown as FeedSources);
  const { ledger: path } = sessionPaths(home, SESSION);
  await Deno.mkdir(join(path, ".."), { recursive: true });
  {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    await feeds.round();
    await Promise.all([got.promise, isAsked.promise]);
    got = Promise.withResolvers();
    ledger.append({ event: execEvent() });
    await ledger.flush();
    // The fast one may still be writing its cursor.
    const timer = setInterval(() => feeds.round(), 20);
    await got.promise;
    clearInterval(timer);
    // Its time limit is not what let the other one go on.
    assertEquals(feeds.status()[0].last_error, null);
    assertEquals(feeds.status().map(({ id }) => id), ["slow", "fast"]);

    // Other terms: nothing waits for the one that hangs, which ends, and a new one has its rest.
    file.sinks = [sink("slow", fast.addr)];
    assertEquals(await feeds.release(SESSION), false);
    got = Promise.withResolvers();
    const again = setInterval(() => feeds.round(), 20);
    await got.promise;
    clearInterval(again);
    await feeds.close();
  }
  hung.resolve(new Response());
  await Promise.all([slow.shutdown(), fast.shutdown()]);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a collector keeps its place in a record that stays for another one", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const sink = (id: string, form: string, url: string) => ({ id, form, url, redact: {} });
  const here = sink("here", "file", `file://${dir}/here.jsonl`);
  // Port 9 (discard) has no receiver.
  const file = { sinks: [here, sink("away", "hec", "http://127.0.0.1:9")] };
  const feeds = new EventFeeds({
    home,
    corp: { state: { status: "ok", config: { file } } },
    registry: { alive: () => [] },
    sessions: { get: () => Promise.resolve(undefined) },
  } as unknown as FeedSources);
  const { ledger: path } = sessionPaths(home, SESSION);
  await Deno.mkdir(join(path, ".."), { recursive: true });
  {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
  }
  const cursor = join(dir, "sinks", "events-here", `${SESSION}.json`);
  await feeds.round();
  await eventually("the sink has its event", () => exists(cursor));
  assertEquals([await feeds.release(SESSION), await exists(cursor)], [false, true]);
  file.sinks = [here];
  assertEquals([await feeds.release(SESSION), await exists(cursor)], [true, false]);
  await feeds.close();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a person's sink gets every event with corp's redactions, and none beyond corp's limits", async () => {
  const dir = await Deno.makeTempDir();
  const bodies: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    bodies.push(await request.text());
    return new Response("{}");
  });
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const limits: { sinks?: string[] } = {};
  const file = { sinks: [] as unknown[], corp: { limits } };
  const feeds = new EventFeeds({
    home,
    corp: { state: { status: "ok", config: { file } } },
    registry: { alive: () => [{ record: { id: SESSION } }] },
    sessions: { get: () => Promise.resolve(undefined) },
  } as unknown as FeedSources);
  const own = join(dir, "sinks.toml");
  const url = `http://127.0.0.1:${server.addr.port}`;
  const text = `[[sinks]]\nid = "mine"\nform = "hec"\nurl = "${url}"\n`;
  const { ledger: path } = sessionPaths(home, SESSION);
  await Deno.mkdir(join(path, ".."), { recursive: true });
  try {
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    /** The requests that one more event causes. */
    const sent = async (command: string): Promise<string[]> => {
      bodies.length = 0;
      ledger.append({ event: execEvent(command) });
      await ledger.flush();
      await feeds.round();
      await feeds.settled();
      return bodies;
    };
    assertEquals(await sent("echo before"), [], "no file names a sink");
    await Deno.writeTextFile(own, text, { mode: 0o600 });
    assertEquals((await sent("echo plain")).map((body) => body.includes("echo plain")), [true]);
    assertEquals(feeds.status().map(({ id, owner, sent }) => [id, owner, sent]), [["mine", "user", 2]]);

    file.sinks = [{
      id: "mine",
      form: "file",
      url: `file://${dir}/corp.jsonl`,
      redact: { "process.command": "remove" },
    }];
    assertEquals((await sent("echo secret")).map((body) => body.includes("echo secret")), [false]);
    assertEquals(feeds.status().map(({ id, owner }) => [id, owner]), [["mine", "corp"], ["mine", "user"]]);

    limits.sinks = ["siem.example", "*.example.com"];
    assertEquals(await sent("echo forbidden"), []);
    assertStringIncludes(feeds.problems().join(), 'corp allows no sink of events at 127.0.0.1 ("mine")');
    limits.sinks = ["127.0.0.1"];
    assertEquals((await sent("echo allowed")).length, 1);
    assertEquals(feeds.problems(), []);

    for (
      const [content, mode, problem] of [
        [text, 0o666, "can be changed by other users"],
        [text.replace("hec", "carrier-pigeon"), 0o600, "form"],
        [text.replace(url, "http://siem.example"), 0o600, "without TLS"],
      ] as const
    ) {
      await Deno.writeTextFile(own, content);
      await Deno.chmod(own, mode);
      assertEquals(await sent("echo invalid"), [], problem);
      assertStringIncludes(feeds.problems().join(), problem);
    }

    // One that is away keeps no record past its retention; the loss is counted.
    file.sinks = [];
    await Deno.writeTextFile(own, text.replace(url, "http://127.0.0.1:1"));
    await Deno.chmod(own, 0o600);
    await sent("echo unsent");
    assertEquals(await feeds.isSent(SESSION), true);
    assertEquals(await feeds.release(SESSION), true);
    assertStringIncludes(feeds.problems().join(), "whose ledgers were removed");
  } finally {
    await feeds.close();
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
});
