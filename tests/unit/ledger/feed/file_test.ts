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

/** Records in one memory: each is a line there, as copied ones are. */
function recordsInOne(from: number, count: number): FeedRecord[] {
  const texts = Array.from({ length: count }, (_, at) => JSON.stringify({ sequence: from + at }));
  const memory = new TextEncoder().encode(texts.map((text) => `${text}\n`).join(""));
  let at = 0;
  return texts.map((text, index) => {
    const json = memory.subarray(at, at + text.length);
    at += text.length + 1;
    return { ...recordAt(from + index, ""), json };
  });
}

Deno.test("records are one line each, in order, wherever their bytes are", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "events.jsonl");
    const sender = new FileSender(`file://${path}`);
    const [first, second] = [recordsInOne(0, 10), recordsInOne(20, 10)];
    // Two memories, records of their own between them, one memory with gaps, and it backwards.
    await sender.send([...first, recordAt(10, "é"), recordAt(11, ""), ...second]);
    await sender.send([second[0], second[2], second[9], second[1]]);
    // More parts than are written one by one.
    await sender.send(Array.from({ length: 40 }, (_, at) => at % 2 ? recordAt(at, "") : second[at % 10]));
    const lines = (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(lines.map(({ sequence }) => sequence), [
      ...Array.from({ length: 12 }, (_, at) => at),
      ...Array.from({ length: 10 }, (_, at) => 20 + at),
      ...[20, 22, 29, 21],
      ...Array.from({ length: 40 }, (_, at) => at % 2 ? at : 20 + at % 10),
    ]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
