/** Hostile collectors of events. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { CredentialStore, sinkAuthorization, storePath } from "../../../lib/credential/mod.ts";
import { Feed, senderOf } from "../../../lib/ledger/feed/mod.ts";
import { RECORD_TRIES } from "../../../lib/ledger/feed/fault.ts";
import { feedRecordOf } from "../../../lib/ledger/feed/record.ts";
import { FeedSink } from "../../../lib/ledger/feed/schema.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

const SECRET = "collector-secret-77aa";

/** Bytes of an answer that never ends by itself. */
function endless(onCancel: () => void): ReadableStream<Uint8Array> {
  const chunk = new Uint8Array(16 * 1024).fill(97);
  return new ReadableStream({ pull: (controller) => controller.enqueue(chunk), cancel: onCancel });
}

function feedOf(url: string, path: string, ledgerOf: (id: string) => string, problems: string[] = []): Feed {
  const sink = FeedSink.parse({ id: "siem", form: "hec", url });
  return new Feed({
    sink,
    sender: senderOf(sink),
    dir: `${path}.cursors`,
    ledgerOf,
    contextOf: () => Promise.resolve({}),
    onProblem: (message) => problems.push(message),
  });
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

Deno.test("an event that a collector fails on holds no other session back", () =>
  withLedgerPath(async (path) => {
    const got: string[] = [];
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
      const text = await request.text();
      if (text.includes("poison")) return new Response(null, { status: 500 });
      got.push(text);
      return new Response("{}");
    });
    const paths: Record<string, string> = { first: path, second: `${path}.second` };
    for (const [name, ledgerPath] of Object.entries(paths)) {
      await using ledger = await Ledger.open(ledgerPath, { sessionId: SESSION });
      ledger.append({ event: execEvent(name === "first" ? "poison" : "good") });
    }
    const feed = feedOf(`http://127.0.0.1:${server.addr.port}`, path, (id) => paths[id]);
    for (let round = 0; round < 2; round++) {
      await feed.round(["first", "second"], () => true, round * 1_000_000);
    }
    assertEquals(got.length, 1);
    assertStringIncludes(feed.status().last_error!, "status 500");
    await server.shutdown();
  }));

Deno.test("an event that a collector fails on again and again is set aside, and the rest of its session arrives", () =>
  withLedgerPath(async (path) => {
    let isBroken = false;
    const got = new Set<string>();
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
      const text = await request.text();
      if (isBroken || text.includes("poison")) return new Response(null, { status: 500 });
      for (const [, name] of text.matchAll(/"cmd_line":"(\w+)"/g)) got.add(name);
      return new Response("{}");
    });
    const names = Array.from({ length: 40 }, (_, at) => at === 17 ? "poison" : `event${at}`);
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    for (const name of names) ledger.append({ event: execEvent(name) });
    await ledger.flush();
    const feed = feedOf(`http://127.0.0.1:${server.addr.port}`, path, () => path);
    let now = 0;
    const rounds = async (count: number) => {
      for (let at = 0; at < count; at++) await feed.round([SESSION], () => true, now += 1_000_000);
    };
    const file = `${path}.cursors/refused.jsonl`;
    // A collector that takes nothing loses nothing by it.
    isBroken = true;
    await rounds(20);
    assertEquals([feed.status().refused, feed.status().lag], [0, names.length]);
    isBroken = false;
    await rounds(RECORD_TRIES);
    assertEquals(got, new Set(names.filter((name) => name !== "poison")));
    const { refused, set_aside, set_aside_file, lag, last_error } = feed.status();
    assertEquals([refused, set_aside, set_aside_file, lag, last_error], [1, 1, file, 0, null]);
    const { sequence, reason, session_id } = JSON.parse(await Deno.readTextFile(file));
    assertEquals([sequence, session_id, /status 500/.test(reason)], [18, SESSION, true]);
    assertEquals((await Deno.lstat(file)).mode! & 0o777, 0o600);
    // The list is there after a restart too, until a person removes it.
    const next = feedOf(`http://127.0.0.1:${server.addr.port}`, path, () => path);
    await next.round([SESSION], () => true);
    assertEquals(next.status().set_aside, 1);
    await Deno.remove(file);
    await next.round([SESSION], () => true);
    assertEquals(next.status().set_aside, 0);
    await server.shutdown();
  }));

Deno.test("an event alone that a collector fails on waits until the collector has taken another one", () =>
  withLedgerPath(async (path) => {
    const server = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen() {} },
      async (request) =>
        new Response("{}", { status: (await request.text()).includes("poison") ? 500 : 200 }),
    );
    const paths: Record<string, string> = { first: path, second: `${path}.second` };
    await using first = await Ledger.open(paths.first, { sessionId: SESSION });
    await using second = await Ledger.open(paths.second, { sessionId: SESSION });
    first.append({ event: execEvent("poison") });
    await first.flush();
    const feed = feedOf(`http://127.0.0.1:${server.addr.port}`, path, (id) => paths[id]);
    let now = 0;
    const rounds = async (count: number) => {
      for (let at = 0; at < count; at++) await feed.round(["first", "second"], () => true, now += 1_000_000);
    };
    await rounds(20);
    assertEquals([feed.status().refused, feed.status().lag], [0, 1]);
    second.append({ event: execEvent("good") });
    await second.flush();
    await rounds(1);
    assertEquals([feed.status().refused, feed.status().sent, feed.status().lag], [1, 1, 0]);
    await server.shutdown();
  }));

Deno.test("a collector that rejects every event fills no log", () =>
  withLedgerPath(async (path) => {
    const reject = () => new Response(null, { status: 400 });
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, reject);
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    for (let at = 0; at < 8; at++) ledger.append({ event: execEvent(`a${at}`) });
    await ledger.flush();
    const problems: string[] = [];
    const feed = feedOf(`http://127.0.0.1:${server.addr.port}`, path, () => path, problems);
    await feed.round([SESSION], () => true);
    assertEquals([feed.status().refused, problems.length], [8, 1]);
    await server.shutdown();
  }));

Deno.test("a damaged cursor skips no event", () =>
  withLedgerPath(async (path) => {
    let posts = 0;
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => {
      posts++;
      return new Response("{}");
    });
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    await Deno.mkdir(`${path}.cursors`);
    for (const cursor of ['{"events":99,"outcomes":0}', '{"events":-1,"outcomes":0}', "null", "{"]) {
      await Deno.writeTextFile(join(`${path}.cursors`, `${SESSION}.json`), cursor);
      posts = 0;
      const feed = feedOf(`http://127.0.0.1:${server.addr.port}`, path, () => path);
      await feed.round([SESSION], () => true);
      assertEquals([posts, feed.status().lag], [1, 0], cursor);
    }
    await server.shutdown();
  }));

Deno.test("a ledger that could not be read is sent once it can be, and is reported once", () =>
  withLedgerPath(async (path) => {
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => new Response("{}"));
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: execEvent() });
    }
    // A folder in place of the cursor: as a disk that takes no writes.
    await Deno.mkdir(join(`${path}.cursors`, `${SESSION}.json`), { recursive: true });
    const problems: string[] = [];
    const feed = feedOf(`http://127.0.0.1:${server.addr.port}`, path, () => path, problems);
    for (let round = 0; round < 3; round++) await feed.round([SESSION], () => false, round * 1_000_000);
    assertEquals(problems.length, 1);
    await Deno.remove(join(`${path}.cursors`, `${SESSION}.json`));
    await feed.round([SESSION], () => false, 9_000_000);
    assertEquals(feed.status().lag, 0);
    await server.shutdown();
  }));

Deno.test("no texts of a guest make a record longer than a receiver takes, or refused", () => {
  const sink = FeedSink.parse({ id: "siem", form: "syslog", url: "tls://localhost" });
  for (const text of ["界".repeat(5000), "😀".repeat(5000), "\ud83d".repeat(5000), "\x01".repeat(5000)]) {
    const exec = execEvent(text);
    const activity = { ...exec.process!.activity, executable: `/${text}`, cwd: `/${text}` };
    const container = { id: text, name: text, image: text };
    const starter = { executable: text, command: `${text} `, cwd: text, pid: 0, ppid: 0, container };
    const common = { ...exec.common, process: starter };
    const event = { ...exec, common, process: { activity } } as unknown as Parameters<typeof feedRecordOf>[0];
    const { json } = feedRecordOf(event, sink);
    assert(json.length <= 7680, `${json.length}`);
    assert(/^[\x20-\x7e]+$/.test(json));
    const plain = JSON.stringify(JSON.parse(json));
    assert(plain.isWellFormed());
    assert(!/\\ud[89a-f]/i.test(plain), "half of a character");
  }
});

Deno.test("no texts of a guest put the parts of one event into another", () => {
  const sink = FeedSink.parse({ id: "siem", form: "syslog", url: "tls://localhost" });
  const texts = ["a", "a b", "a 1", 'a","b', "a\u0000b", "a\n=b", "undefined", "", "=a", "null", "7 a"];
  const eventOf = (executable: string, command: string, method: string, rule: string | undefined) => {
    const request = requestEvent("http.request", { method, path: `/${executable}` });
    const process = { executable, command, cwd: "", pid: 1, ppid: 0 };
    const rule_id = rule === undefined ? {} : { rule_id: rule };
    return { ...request, common: { ...request.common, process }, decision: "allow", ...rule_id };
  };
  for (const first of texts) {
    for (const second of texts) {
      for (const rule of [first, second, undefined]) {
        const event = eventOf(first, second, `X${second}`, rule);
        const body = JSON.parse(
          feedRecordOf(event as unknown as Parameters<typeof feedRecordOf>[0], sink).json,
        );
        const { name, cmd_line } = body.actor.process;
        assertEquals([name, cmd_line ?? name], [first, second]);
        assertEquals(body.http_request.url.path, `/${first}`);
        assertEquals(body.unmapped["sbx.subject.method"], `X${second}`);
        assertEquals(body.activity_name, `X${second}`);
        assertEquals(body.policy?.uid, rule);
      }
    }
  }
});

Deno.test("the error of a request repeats no field that a sink's terms leave out", () => {
  const event = {
    ...requestEvent("http.request", { host: "secret.corp.test" }),
    outcome: { error: "cannot reach secret.corp.test:443" },
  } as unknown as Parameters<typeof feedRecordOf>[0];
  const terms = { id: "siem", form: "syslog", url: "tls://localhost" };
  const textOf = (redact: Record<string, string>) =>
    feedRecordOf(event, FeedSink.parse({ ...terms, redact })).json;
  assertStringIncludes(textOf({ "dns.qname": "remove" }), "cannot reach");
  for (const how of ["hash", "remove"]) assert(!textOf({ "http.host": how }).includes("secret.corp"), how);
});

Deno.test("a feed to a file follows no link, and uses no file or folder that others may change", () =>
  withLedgerPath(async (path) => {
    const dir = join(path, "..");
    const [folder, victim] = [join(dir, "out"), join(dir, "victim")];
    const target = join(folder, "events.jsonl");
    await Deno.mkdir(folder, { mode: 0o700 });
    await Deno.writeTextFile(victim, "mine\n");
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    const sink = FeedSink.parse({ id: "siem", form: "file", url: `file://${target}` });
    const feed = new Feed({
      sink,
      sender: senderOf(sink),
      dir: `${path}.cursors`,
      ledgerOf: () => path,
      contextOf: () => Promise.resolve({}),
    });
    let rounds = 0;
    const problem = async () => {
      await feed.round([SESSION], () => true, rounds++ * 1_000_000);
      return feed.status().last_error ?? "";
    };
    await Deno.symlink(victim, target);
    assertStringIncludes(await problem(), "is a link");
    await Deno.remove(target);
    await Deno.link(victim, target);
    assertStringIncludes(await problem(), "another user's");
    await Deno.remove(target);
    await new Deno.Command("mkfifo", { args: [target] }).output();
    assert((await problem()).includes(target));
    await Deno.remove(target);
    await Deno.writeTextFile(target, "");
    await Deno.chmod(target, 0o666);
    assertStringIncludes(await problem(), "others may write");
    await Deno.remove(target);
    await Deno.chmod(folder, 0o777);
    assertStringIncludes(await problem(), "chmod go-w");
    await Deno.chmod(folder, 0o700);
    assertEquals([await problem(), feed.status().sent], ["", 1]);
    assertEquals(await Deno.readTextFile(victim), "mine\n");
    assertEquals((await Deno.stat(target)).mode! & 0o777, 0o600);
  }));
