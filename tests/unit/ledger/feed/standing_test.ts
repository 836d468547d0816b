/** Standing of a sink, as `sbx corp info` and `sbx status` show it. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { sinkLines } from "../../../../cmd/sbx/sinks.ts";
import { Ledger } from "../../../../lib/ledger/mod.ts";
import { Feed, senderOf } from "../../../../lib/ledger/feed/mod.ts";
import { FeedSink } from "../../../../lib/ledger/feed/schema.ts";
import { execEvent, SESSION, withLedgerPath } from "../../../helper/ledger.ts";

Deno.test("a sink shows its lag, the oldest event that waits, the last success and the last failure", () =>
  withLedgerPath(async (path) => {
    let isAway = true;
    await using server = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen() {} },
      () => isAway ? new Response(null, { status: 503 }) : Response.json({}),
    );
    const url = `http://127.0.0.1:${server.addr.port}`;
    const sink = FeedSink.parse({ id: "otel", form: "otlp", url });
    const feed = new Feed({
      sink,
      sender: senderOf(sink),
      dir: `${path}.cursors`,
      ledgerOf: () => path,
      contextOf: () => Promise.resolve({}),
    });
    const standing = () => feed.standing([SESSION]);
    assertEquals(sinkLines([await standing()])[0][1], `otel (otlp ${url}); nothing waits; none sent yet`);

    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    const at = 1_700_000_000_000;
    for (const time of [at, at + 60_000]) {
      const event = execEvent();
      event.common.timestamp_unix_ms = time;
      ledger.append({ event });
    }
    await ledger.flush();
    await feed.round([SESSION], () => true, 1000);
    const waiting = await standing();
    assertEquals([waiting.lag, waiting.oldest_unix_ms, waiting.last_success_unix_ms], [2, at, null]);
    assertEquals(waiting.last_failure?.message, `${url} responded with status 503`);
    const [[, line]] = sinkLines([waiting], at + 90_000);
    assertStringIncludes(
      line,
      "2 events wait, the oldest from 1 min ago; none sent yet; fails 0 s ago: http",
    );

    isAway = false;
    await feed.round([SESSION], () => true, 10_000);
    const sent = await standing();
    assertEquals([sent.lag, sent.oldest_unix_ms, sent.last_error, sent.sent], [0, null, null, 2]);
    assert(sent.last_success_unix_ms! >= sent.last_failure!.at_unix_ms);
    assertStringIncludes(sinkLines([sent])[0][1], "nothing waits; last sent 0 s ago; failed 0 s ago: http");
  }));
