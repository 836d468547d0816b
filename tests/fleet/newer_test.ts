/**
 * Segments of a later sbx: refused by a receiver of this one and kept by the
 * machine, or waiting in the stream.
 */
import { assert, assertEquals } from "@std/assert";
import { openNats, parseNats, subjects } from "../../lib/fleet/nats.ts";
import { readEnd } from "../../lib/fleet/receive/mod.ts";
import { headerOf } from "../../lib/fleet/segment/mod.ts";
import { HttpTarget, NatsTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { sessionFolder } from "../../lib/fleet/store.ts";
import { SEGMENT_TYPE, signText } from "../../lib/release/signing/mod.ts";
import { record, SESSION_A, TestFleet } from "../helper/fleet.ts";
import { NatsServer } from "../helper/nats.ts";
import { arrived, entries, pause, problemsOf, pulling } from "../helper/pulling.ts";

Deno.test("a segment of a later sbx is neither kept nor lost", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const path = `${fleet.dir}/a.db`;
  await record(path, SESSION_A, entries(SESSION_A, 10));
  let segment = new Uint8Array();
  await new Shipper({
    dir: `${fleet.dir}/first`,
    key,
    target: {
      name: "memory",
      send: (bytes) => (segment = bytes, Promise.resolve({ kept: true })),
      report: () => Promise.resolve(),
    },
  }).ship(SESSION_A, path);
  const envelope = await signText(
    key,
    SEGMENT_TYPE,
    JSON.stringify({ ...headerOf(segment), schema: "sbx.ledger-segment.v2", of_tomorrow: 1 }),
  );
  const rows = segment.subarray(segment.indexOf(10) + 1);
  const newer = new Uint8Array([...new TextEncoder().encode(envelope), ...rows]);
  const folder = sessionFolder(fleet.store, key.publicKey.id, SESSION_A);
  const post = await new HttpTarget(fleet.url, key).post("v1/segments", newer, "application/octet-stream");
  assertEquals(post.status, 400);
  assertEquals((await readEnd(folder)).events, 0);

  await using server = await NatsServer.start();
  const address = parseNats(server.url);
  const { connection, manager, stream } = await openNats(address);
  try {
    await using _pull = pulling(fleet.store, server.url);
    const subject = subjects.segment(address, key.publicKey.id, SESSION_A);
    while (!await stream.publish(subject, newer).then(() => true, () => false)) await pause(50);
    // It comes again and again, until a receiver can read it.
    for (;; await pause(100)) {
      const { num_redelivered } = await manager.consumers.info(address.stream, "sbx_receiver");
      if (num_redelivered > 0) break;
    }
    assertEquals((await readEnd(folder)).events, 0);
    assertEquals(await problemsOf(fleet.store), []);
    // One that is nonsense goes, and is not in the way of others.
    await stream.publish(subject, "nonsense");
    await manager.streams.purge(address.stream, { filter: subject });
    const target = new NatsTarget(server.url);
    await new Shipper({ dir: `${fleet.dir}/second`, key, target }).ship(SESSION_A, path);
    await arrived(fleet.store, key, SESSION_A, path);
    await target.close();
  } finally {
    await connection.close();
  }
  assert((await readEnd(folder)).events === 10);
});
