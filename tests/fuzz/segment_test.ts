/**
 * Segments of a hostile machine, whose signature is valid, and valid ones that were changed:
 * refused with an error of ours.
 */
import { zstdCompressSync } from "node:zlib";
import { assert, assertEquals } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { openSegment, verifyChains, verifyRows } from "../../lib/fleet/segment/mod.ts";
import { START_HEADS } from "../../lib/ledger/mod.ts";
import { digestText } from "../../lib/ledger/mod.ts";
import { SEGMENT_TYPE, signText } from "../../lib/release/signing/mod.ts";
import { newKey, SESSION_A, webEvent } from "../helper/fleet.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 1500;
const random = new Random(21);
const key = await newKey();

/** A segment with any body and any header, signed by the machine. */
async function segmentOf(
  body: Uint8Array,
  header: Record<string, unknown> = {},
  rows: Uint8Array = new Uint8Array(zstdCompressSync(body)),
): Promise<Uint8Array> {
  const text = JSON.stringify({
    schema: "sbx.ledger-segment.v1",
    machine_id: key.publicKey.id,
    session_id: SESSION_A,
    made_at: new Date(0).toISOString(),
    bound_after: 0,
    from: START_HEADS,
    to: START_HEADS,
    body: { hash: blake3(rows), bytes: body.length },
    ...header,
  });
  const envelope = new TextEncoder().encode(await signText(key, SEGMENT_TYPE, text));
  return new Uint8Array([...envelope, ...rows]);
}

/** @returns number of rows, or the code of the error */
async function read(bytes: Uint8Array): Promise<number | string> {
  const keyOf = (id: string) => id === key.publicKey.id ? key.publicKey : undefined;
  const [rows, chains] = await Promise.all(
    [verifyRows, verifyChains].map(async (verify) => {
      try {
        const lines: unknown = verify(await openSegment(bytes, keyOf));
        return Array.isArray(lines) ? lines.length : 0;
      } catch (error) {
        assert(error instanceof SbxError, String((error as Error).stack));
        return (error as SbxError).code;
      }
    }),
  );
  // A receiver refuses no more than those who read the rows do; it does not look into their JSON.
  if (typeof chains === "string") assertEquals(rows, chains);
  return rows;
}

function validRow(): { line: string; hash: string } {
  const event = webEvent(SESSION_A);
  event.common.sequence = 1;
  const text = JSON.stringify(event);
  const hash = digestText(text, START_HEADS.head_hash);
  return { line: `e\t${hash}\t${text}\t\n`, hash };
}

Deno.test("a body of one row is read, and any changed byte of the segment is refused", async () => {
  const { line, hash } = validRow();
  const body = new TextEncoder().encode(line);
  const good = await segmentOf(body, { to: { ...START_HEADS, events: 1, head_hash: hash } });
  assertEquals(await read(good), 1);
  for (let round = 0; round < ROUNDS; round++) {
    const bad = good.slice(0, random.below(8) === 0 ? random.below(good.length) : good.length);
    if (bad.length === good.length) bad[random.below(bad.length)] ^= 1 << random.below(8);
    const result = await read(bad);
    assert(["fleet.segment.invalid", "fleet.machine.unknown"].includes(String(result)), String(result));
  }
});

Deno.test("signed rows of any form end in an error of ours", async () => {
  const { line, hash } = validRow();
  const heads = { ...START_HEADS, events: 1, head_hash: hash };
  const rows: Uint8Array[] = [
    "",
    "\n",
    "e\n",
    `e\t${hash}\tnull\t\n`,
    `E\t${hash}\tnull\t\n`,
    `E\t${hash}\t{"common":null}\t\n`,
    `E\t${hash}\t[]\t\n`,
    `O\t${hash}\t{\n`,
    `j\t${hash}\tfinding\tid\t{}\n`,
    `x\t${hash}\n`,
    line + line,
    line.slice(0, -3),
    `E\t${hash}\t${"[".repeat(50_000)}\t\n`,
  ].map((text) => new TextEncoder().encode(text));
  for (let round = 0; round < ROUNDS; round++) rows.push(random.bytes(random.below(200)));
  for (const body of rows) {
    assertEquals(await read(await segmentOf(body, { to: heads })), "fleet.segment.invalid");
  }
});

Deno.test("a body that is larger than it says, or says more than is allowed, is not unpacked", async () => {
  const bomb = new Uint8Array(zstdCompressSync(new Uint8Array(64 * 1024 * 1024)));
  const small = new TextEncoder().encode("x");
  const before = Deno.memoryUsage().rss;
  for (const bytes of [1, 100, 2 ** 40]) {
    const segment = await segmentOf(small, { body: { hash: blake3(bomb), bytes } }, bomb);
    assertEquals(await read(segment), "fleet.segment.invalid");
  }
  assert(Deno.memoryUsage().rss - before < 64 * 1024 * 1024, "the bomb went off");
});
