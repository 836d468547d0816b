/** Events in a file. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { FileSender } from "../../../../lib/ledger/feed/file.ts";
import { encodeRecord, type FeedRecord } from "../../../../lib/ledger/feed/record.ts";

function recordAt(sequence: number, text: string): FeedRecord {
  const json = JSON.stringify({ sequence, text });
  const [event_id, event_type, session_id] = ["0123456789ab", "process.exec", "s"];
  const at = { event_id, event_type, session_id, sequence, time: 1, host: "h" };
  return encodeRecord({ ...at, json, is_update: false });
}

Deno.test("a test event that is sent while others are written changes none of them", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "events.jsonl");
    const sender = new FileSender(`file://${path}`);
    const rows = (from: number) =>
      Array.from({ length: 100 }, (_, at) => recordAt(from + at, "x".repeat(500)));
    await sender.send(rows(0));
    await Promise.all([
      sender.send(rows(100)),
      sender.send([recordAt(200, "a test")]),
      sender.send(rows(201)),
    ]);
    const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
    assertEquals(lines.map((line) => JSON.parse(line).sequence), Array.from({ length: 301 }, (_, at) => at));
    const failing = new FileSender(`file://${dir}`);
    const failed = await Promise.allSettled([failing.send(rows(0)), failing.send(rows(0))]);
    assertEquals(failed.map(({ status }) => status), ["rejected", "rejected"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
