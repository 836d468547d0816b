/**
 * The feed against the syslog daemons of Debian: each event arrives whole, and
 * none is lost when they are killed.
 */
import { assertEquals } from "@std/assert";
import { ignore } from "../../lib/base/error/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { Feed, senderOf } from "../../lib/ledger/feed/mod.ts";
import { FeedSink } from "../../lib/ledger/feed/schema.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../helper/ledger.ts";
import { type Received, RECEIVERS, SyslogReceiver } from "../helper/syslog_receiver.ts";

/** Events of a feed that is cut: more than one batch. */
const EVENTS = 600;
/** Bytes of a batch on their way when the receiver is killed. */
const CUT_BYTES = 50_000;

/** Forwards connections to a receiver, and cuts one in its middle. */
class Cutter implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #serving: Promise<void>;
  /** called once, after so many bytes of a connection */
  cut?: () => Promise<void>;

  constructor(port: number) {
    this.#serving = this.#serve(port);
  }

  get url(): string {
    return `tls://localhost:${this.#listener.addr.port}`;
  }

  async #serve(port: number): Promise<void> {
    for await (const from of this.#listener) {
      const to = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => from.close());
      if (!to) continue;
      let bytes = 0;
      const back = forward(to, from);
      const forth = forward(from, to, async (chunk) => {
        bytes += chunk.length;
        const { cut } = this;
        if (!cut || bytes < CUT_BYTES) return;
        this.cut = undefined;
        await cut();
      });
      // An error closes both ends; an end closes one direction.
      await Promise.all([back, forth]).catch(ignore("either end may be gone"));
      for (const end of [from, to]) end.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
  }
}

/**
 * Passes on what one end says, and then its end. Not by its `readable`, which closes the whole connection at
 * the end of one direction: the receiver's answer to that end is what the feed waits for.
 */
async function forward(
  from: Deno.Conn,
  to: Deno.Conn,
  each?: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  const buffer = new Uint8Array(65_536);
  for (let length; (length = await from.read(buffer)) !== null;) {
    const chunk = buffer.subarray(0, length);
    await each?.(chunk);
    for (let at = 0; at < length;) at += await to.write(chunk.subarray(at));
  }
  await to.closeWrite();
}

const uidOf = ({ message }: Received): string => JSON.parse(message).metadata.uid;

for (const kind of RECEIVERS) {
  Deno.test(`${kind}: each event arrives whole over TLS, again after the receiver was killed in a batch`, () =>
    withLedgerPath(async (path) => {
      await using receiver = await SyslogReceiver.make(kind);
      await using cutter = new Cutter(receiver.port);
      const sink = FeedSink.parse({
        id: "siem",
        form: "syslog",
        url: cutter.url,
        ca_file: receiver.caFile,
      });
      const feed = new Feed({
        sink,
        sender: senderOf(sink),
        dir: `${path}.cursors`,
        ledgerOf: () => path,
        contextOf: () => Promise.resolve({ vm_name: "box" }),
      });
      let now = Date.now();
      // Later than every wait after a failure.
      const round = () => feed.round([SESSION], () => true, now += 3_600_000);
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const uids: string[] = [];
      const append = (event: ReturnType<typeof execEvent>, block = false) => {
        uids.push(`${SESSION}:${uids.length + 1}`);
        ledger.append({ event, ...block && { decision: { decision: "block", rule: { id: "corp-1" } } } });
      };
      // Bytes that a receiver could read as the end of a message, as a priority or as structured data.
      const odd = `echo '\n<1>1 - - - - - [a@1 b="c"] \u0000 ü 🙂 %0a'`;
      append(requestEvent("http.request", { path: "/ü\n12 <34>1 " }), true);
      append(execEvent(odd));
      // Longer than the 8 KiB that receivers of RFC 5425 should take.
      append(execEvent("x".repeat(20_000)));
      await ledger.flush();
      await receiver.start();
      await round();
      assertEquals(feed.status().last_error, null);
      const first = await receiver.messages((messages) => messages.length === 3);
      assertEquals(first.map(uidOf), uids);
      assertEquals(
        first.map((
          { priority, program, message_id, data },
        ) => [priority, program, message_id, data.replace("-", "")]),
        [["108", "sbx", "http.request", ""], ["110", "sbx", "process.exec", ""], [
          "110",
          "sbx",
          "process.exec",
          "",
        ]],
      );
      assertEquals(JSON.parse(first[1].message).process.cmd_line, odd);
      assertEquals(JSON.parse(first[0].message).disposition_id, 2);

      for (let at = 0; at < EVENTS; at++) append(execEvent(`event ${at}`));
      await ledger.flush();
      cutter.cut = () => receiver.kill();
      await round();
      assertEquals([typeof feed.status().last_error, feed.status().lag], ["string", EVENTS]);
      append(execEvent("while it was away"));
      await ledger.flush();
      await round();
      assertEquals([typeof feed.status().last_error, feed.status().lag], ["string", EVENTS + 1]);
      await receiver.start();
      await round();
      assertEquals([feed.status().last_error, feed.status().lag], [null, 0]);
      // At least once, and in any order: some may be there twice, and a receiver has several threads.
      const all = await receiver.messages((messages) => new Set(messages.map(uidOf)).size >= uids.length);
      assertEquals(new Set(all.map(uidOf)), new Set(uids));
    }));
}
