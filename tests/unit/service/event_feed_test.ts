/** Feeds of the sinks of corp.toml, with receivers on this machine's loopback. */
import { assertEquals } from "@std/assert";
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
