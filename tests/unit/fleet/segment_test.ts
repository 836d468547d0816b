/** Segments of ledgers with large, foreign and damaged rows, from the ledger's file to verified rows. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import {
  headerOf,
  type Line,
  openSegment,
  SEGMENT_BYTES_MAX,
  verifyChains,
  verifyRows,
} from "../../../lib/fleet/segment/mod.ts";
import { Shipper } from "../../../lib/fleet/ship/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readHeads } from "../../../lib/ledger/read/mod.ts";
import { newKey, SESSION_A, webEvent } from "../../helper/fleet.ts";

const key = await newKey();

/** Ships a ledger of events, one to each path, into memory. */
async function shipped(paths: readonly string[], change = (_ledger: string) => {}) {
  const dir = await Deno.makeTempDir();
  try {
    const path = `${dir}/session.db`;
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION_A });
      for (const each of paths) ledger.append({ event: webEvent(SESSION_A, "a.example.com", each) as Event });
    }
    change(path);
    const segments: Uint8Array<ArrayBuffer>[] = [];
    const send = (segment: Uint8Array<ArrayBuffer>) =>
      Promise.resolve((segments.push(segment), { kept: true as const }));
    const target = { name: "memory", send, report: () => Promise.resolve() };
    await new Shipper({ dir: `${dir}/cursors`, key, target }).ship(SESSION_A, path);
    const lines: Line[] = [];
    for (const segment of segments) {
      verifyChains(await openSegment(segment, () => key.publicKey));
      lines.push(...verifyRows(await openSegment(segment, () => key.publicKey)));
    }
    return { segments, lines, heads: await readHeads(path) };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Path of the request of an event's row. */
function pathOf(line: Line): string {
  if (line.kind !== "event") throw new Error(`a row of kind ${line.kind}`);
  return (JSON.parse(line.text) as Event).http!.request.path;
}

Deno.test("rows that are too many or too large for one segment go in several, in order", async () => {
  const large = "/" + "é".repeat(1_500_000);
  const paths = ["/small", large, "/between", large, large, ...Array(5000).fill("/many")];
  const { segments, lines, heads } = await shipped(paths);
  assert(segments.length > 2, `${segments.length} segments`);
  assert(segments.every(({ length }) => length < SEGMENT_BYTES_MAX));
  assertEquals(headerOf(segments.at(-1)!).to, heads);
  assertEquals(lines.map(pathOf), paths);
});

Deno.test("characters of any width and text that looks like a row stay as they are", async () => {
  const paths = ["/größe/日本/𝒳", "/tab\tand\nline", '/"body":{"state":"held"}', "/e\t" + "0".repeat(64)];
  const { lines, heads } = await shipped(paths);
  assertEquals(lines.map(pathOf), paths);
  assert(lines.every((line) => line.kind === "event" && line.whole));
  assertEquals(heads.events, paths.length);
});

Deno.test("a damaged row stops its ledger with an error, and ends no process", async () => {
  const damaged = (text: Uint8Array) => (path: string) => {
    using database = new DatabaseSync(path);
    database.prepare("UPDATE entries SET event = CAST(? AS TEXT) WHERE sequence = 2").run(text);
  };
  const notUtf8 = new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]);
  await assertRejects(() => shipped(["/1", "/2", "/3"], damaged(notUtf8)), SbxError, "row 2");
  const notJson = new TextEncoder().encode('{"request":{"body":');
  const error = await assertRejects(() => shipped(["/1", "/2", "/3"], damaged(notJson)), SbxError);
  assertEquals(error.code, "ledger.invalid");
});

Deno.test("a receiver leaves JSON to its readers, and refuses another session's or another place's rows", async () => {
  const { segments } = await shipped(["/1", "/2"]);
  const opened = await openSegment(segments[0], () => key.publicKey);
  for (
    const header of [{ session_id: crypto.randomUUID() }, { from: { ...opened.header.from, events: 7 } }]
  ) {
    const changed = { ...opened, header: { ...opened.header, ...header } };
    for (const verify of [verifyChains, verifyRows]) {
      assertThrows(() => verify(changed), SbxError, "row 1: the event is");
    }
  }
});
