import { assertEquals } from "@std/assert";
import { acceptAll } from "../../../lib/base/accept/mod.ts";
import { noDelayOf } from "../../helper/no_delay.ts";

Deno.test("accepted connections send small pieces at once, and Unix sockets are accepted as they are", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  for await (using conn of acceptAll(listener)) {
    assertEquals(noDelayOf(conn.localAddr, conn.remoteAddr), true);
    assertEquals(noDelayOf(client.localAddr, client.remoteAddr), false);
    break;
  }
  const dir = await Deno.makeTempDir();
  try {
    using unix = Deno.listen({ transport: "unix", path: `${dir}/socket` });
    using other = await Deno.connect({ transport: "unix", path: `${dir}/socket` });
    for await (using conn of acceptAll(unix)) {
      await other.write(new Uint8Array([7]));
      assertEquals(await conn.read(new Uint8Array(9)), 1);
      break;
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("connections that were broken off before their option was set do not end the others", async () => {
  // macOS fails so (EINVAL); Linux sets the option.
  const broken = {
    setNoDelay() {
      throw new TypeError("Invalid argument (os error 22)");
    },
  } as unknown as Deno.TcpConn;
  const queue = [broken, broken];
  const accept = () => Promise.resolve(queue.shift()!);
  let count = 0;
  for await (const conn of acceptAll({ accept })) {
    assertEquals(conn, broken);
    if (++count === 2) break;
  }
});
