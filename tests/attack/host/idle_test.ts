/** A guest opens as many connections as it may and leaves them idle: the host pays little for each. */
import { assert } from "@std/assert";
import { encodeFrame, type FrameChannel } from "../../../lib/base/wire/mod.ts";
import { GuestLink, PORTS, TCP_STREAMS_MAX } from "../../../lib/machine/guest/mod.ts";
import { BufferedConnection, DeadlineWatch } from "../../../lib/network/connection.ts";
import { GuestStream } from "../../../lib/session/network.ts";
import { vsockPath } from "../../../lib/machine/vm/mod.ts";

/** Connections of this test, and most `bytes` of buffers for each. */
const COUNT = 800;
const BUFFERS_MAX = 8 * 1024;

Deno.test("an idle connection of a guest keeps less than 8 KiB of buffers", async () => {
  const dir = await Deno.makeTempDir();
  const link = new GuestLink(dir);
  const watch = new DeadlineWatch();
  const held: BufferedConnection[] = [];
  const served = Promise.withResolvers<void>();
  link.accept(PORTS.tcp, async (channel: FrameChannel, conn) => {
    await channel.next();
    const connection = new BufferedConnection(new GuestStream(conn, channel.reader.rest()), watch);
    held.push(connection);
    if (held.length === COUNT) served.resolve();
    await connection.fill().catch(() => false);
  }, { maxConnections: TCP_STREAMS_MAX });
  const before = Deno.memoryUsage().external;
  const guests: Deno.Conn[] = [];
  const open = encodeFrame({
    t: "Open",
    host_ip: "192.0.2.1",
    port: 443,
    process_name: "idle",
    pid: 1,
    stream: 1,
  });
  for (let at = 0; at < COUNT; at++) {
    const conn = await Deno.connect({ transport: "unix", path: vsockPath(dir, PORTS.tcp) });
    guests.push(conn);
    await conn.write(open);
  }
  await served.promise;
  const each = (Deno.memoryUsage().external - before) / COUNT;
  for (const connection of held) connection.close();
  for (const conn of guests) conn.close();
  link.close();
  await Deno.remove(dir, { recursive: true });
  assert(each < BUFFERS_MAX, `${Math.round(each)} bytes`);
});
