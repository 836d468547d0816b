/** Limits of queues count bytes: a line of other letters than ASCII has more of them than characters. */
import { assertEquals } from "@std/assert";
import { DiskQueue } from "../../../../lib/ledger/sink/queue.ts";
import { lineOf, RECORD_MAX } from "../../../../lib/ledger/sink/record.ts";
import type { Parsed } from "../../../helper/json.ts";

Deno.test("a queue counts the bytes of its lines, in memory and on disk", async () => {
  const dir = await Deno.makeTempDir();
  const line = "€".repeat(33);
  try {
    const queue = await DiskQueue.open(dir, { maxBytes: 250 });
    assertEquals([queue.push(line), queue.push(line), queue.push(line)], [true, true, false]);
    assertEquals(queue.bytes, 200);
    await queue.flush();
    assertEquals(queue.bytes, 200);
    assertEquals((await queue.take(10))?.lines, [line, line]);
    await queue.close();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a record has a limit in bytes", () => {
  const record = (text: string): Parsed => ({
    finding: { title: "t" },
    common: { labels: {} },
    subject: { text },
  });
  assertEquals(JSON.parse(lineOf(record("a".repeat(RECORD_MAX / 2)))).subject.text.length, RECORD_MAX / 2);
  assertEquals(JSON.parse(lineOf(record("€".repeat(RECORD_MAX / 2)))).subject, undefined);
});
