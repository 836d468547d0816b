import { assertEquals } from "@std/assert";
import { GuestLink } from "../../../../lib/machine/guest/mod.ts";

Deno.test("a link that opens where another one closed keeps its sockets", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const first = new GuestLink(dir);
    first.listen();
    const names = () => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();
    const listening = names();
    assertEquals(listening.length, 3);
    await first.close();
    const second = new GuestLink(dir);
    second.listen();
    // Turns of the event loop in which Deno would remove the first link's sockets.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
    assertEquals(names(), listening);
    await second.close();
    assertEquals(names(), []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
