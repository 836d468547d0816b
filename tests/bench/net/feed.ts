/**
 * Feed of the network bench's ledger to a file, in a process of its own, as the service has it: a
 * round each second while it is on. Reads `on`, `off` and `drain`, which sends the rest; prints a
 * JSON line for `off` and `drain`.
 */
import { join } from "node:path";
import { cpuUsage, stdin } from "node:process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { Feed, senderOf } from "../../../lib/ledger/feed/mod.ts";
import { FeedSink } from "../../../lib/ledger/feed/schema.ts";

const [dir] = Deno.args;
const ROUND_MS = 1000;

const sink = FeedSink.parse({ id: "bench", form: "file", url: pathToFileURL(join(dir, "feed.jsonl")).href });
const feed = new Feed({
  sink,
  sender: senderOf(sink),
  dir: join(dir, "cursors"),
  ledgerOf: () => join(dir, "session.db"),
  contextOf: () => Promise.resolve({}),
});
const round = () => feed.round(["bench"], () => true);
let timer: ReturnType<typeof setTimeout> | undefined;
let running: Promise<void> = Promise.resolve();

const begin = () => {
  timer = setTimeout(() => {
    running = round().then(() => {
      if (timer !== undefined) begin();
    });
  }, ROUND_MS);
};

console.log(JSON.stringify(feed.status()));
for await (const line of createInterface({ input: stdin })) {
  if (line === "on") begin();
  else {
    if (line === "off") {
      clearTimeout(timer);
      timer = undefined;
      await running;
    } else await round();
    const { user, system } = cpuUsage();
    console.log(JSON.stringify({ ...feed.status(), cpu_us: user + system }));
  }
}
