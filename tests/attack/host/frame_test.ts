/** Any program of the guest announces long frames and never ends them: the host keeps little of each. */
import { assert, assertEquals } from "@std/assert";
import { GuestLink, PORTS, TCP_FRAME_LIMIT, TCP_STREAMS_MAX } from "../../../lib/machine/guest/mod.ts";
import { vsockPath } from "../../../lib/machine/vm/mod.ts";

/** Connections of each port, and most `bytes` that the host keeps for each. */
const COUNT = 100;
const KEPT_MAX = 64 * 1024;
/** Announced length, and what is sent of it, in `bytes`. */
const ANNOUNCED = 2 * 1024 * 1024;
const SENT = 1024 * 1024;

Deno.test("half of a long first frame costs the host next to nothing, on every port", async () => {
  const dir = await Deno.makeTempDir();
  const link = new GuestLink(dir);
  link.listen();
  const others = [PORTS.mcp, PORTS.tcp];
  for (const port of others) {
    link.accept(port, async (channel) => void await channel.next(), {
      maxConnections: TCP_STREAMS_MAX,
      ...port === PORTS.tcp && { frameLimit: TCP_FRAME_LIMIT },
    });
  }
  const frame = new Uint8Array(4 + SENT).fill(0x20);
  new DataView(frame.buffer).setUint32(0, ANNOUNCED);
  const before = Deno.memoryUsage().external;
  const guests: Deno.Conn[] = [];
  let refused = 0;
  for (const port of [PORTS.terminal, PORTS.exec, ...others]) {
    for (let at = 0; at < COUNT; at++) {
      const conn = await Deno.connect({ transport: "unix", path: vsockPath(dir, port) });
      guests.push(conn);
      for (let sent = 0; sent < frame.length;) {
        const written = await conn.write(frame.subarray(sent)).catch(() => 0);
        if (written === 0) {
          refused++;
          break;
        }
        sent += written;
      }
    }
  }
  const each = (Deno.memoryUsage().external - before) / guests.length;
  for (const conn of guests) conn.close();
  link.close();
  await Deno.remove(dir, { recursive: true });
  assertEquals(refused, guests.length, "connections that the host closed");
  assert(each < KEPT_MAX, `${Math.round(each)} bytes`);
});
