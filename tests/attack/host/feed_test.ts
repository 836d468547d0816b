/** Hostile collectors of events. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { CredentialStore, sinkAuthorization, storePath } from "../../../lib/credential/mod.ts";
import { Feed, senderOf } from "../../../lib/ledger/feed/mod.ts";
import { FeedSink } from "../../../lib/ledger/feed/schema.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { execEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

const SECRET = "collector-secret-77aa";

/** Bytes of an answer that never ends by itself. */
function endless(onCancel: () => void): ReadableStream<Uint8Array> {
  const chunk = new Uint8Array(16 * 1024).fill(97);
  return new ReadableStream({ pull: (controller) => controller.enqueue(chunk), cancel: onCancel });
}

Deno.test("a redirect, an endless answer and nonsense lose no event, and move no token", () =>
  withLedgerPath(async (path) => {
    const home = { dir: join(path, "..") };
    const store = new CredentialStore(storePath(home, { get: () => undefined }));
    const [{ ref }] = await store.add([{ provider: "mcp", secret: SECRET, hosts: ["127.0.0.1"] }]);
    const elsewhere: string[] = [];
    const other = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
      elsewhere.push(request.url);
      return new Response();
    });
    const stopped = Promise.withResolvers<void>();
    const answers = [
      () => Response.redirect(`http://127.0.0.1:${other.addr.port}/`, 307),
      () => new Response(endless(stopped.resolve), { status: 500 }),
      () => new Response("<html>ok</html>"),
      () => Response.json({ errors: true }),
      () => Response.json({ errors: false }),
    ];
    const asked: (string | null)[] = [];
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
      await request.text();
      asked.push(request.headers.get("authorization"));
      return answers[asked.length - 1]();
    });
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    const url = `http://127.0.0.1:${server.addr.port}`;
    const sink = FeedSink.parse({ id: "siem", form: "elastic", url, credential_ref: ref });
    const problems: string[] = [];
    const feed = new Feed({
      sink,
      sender: senderOf(sink, sinkAuthorization(home, { credential_ref: ref })),
      dir: `${path}.cursors`,
      ledgerOf: () => path,
      contextOf: () => Promise.resolve({}),
      onProblem: (message) => problems.push(message),
    });
    for (let round = 0; round < answers.length; round++) {
      assertEquals(feed.status().sent, 0);
      await feed.round([SESSION], () => true, round * 1_000_000);
    }
    await stopped.promise;
    assertEquals([feed.status().sent, feed.status().refused, feed.status().last_error], [1, 0, null]);
    assertEquals([...new Set(asked)], [`ApiKey ${SECRET}`]);
    assertEquals(elsewhere, []);
    assertStringIncludes(problems.join("\n"), "status 307");
    assert(!problems.join("\n").includes(SECRET));
    await Promise.all([server.shutdown(), other.shutdown()]);
  }));
