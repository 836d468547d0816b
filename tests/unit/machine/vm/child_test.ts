import { assert, assertEquals } from "@std/assert";
import { waitForSocket } from "../../../../lib/machine/vm/helper.ts";
import { bindLate } from "../../../helper/late_socket.ts";

Deno.test("a helper is waited for until it listens, not until its socket exists", async () => {
  const path = `${await Deno.makeTempDir()}/s`;
  await using late = await bindLate(path);
  assertEquals(await waitForSocket(path, late.child, 50), false);
  await late.listen();
  assert(await waitForSocket(path, late.child));
  (await Deno.connect({ transport: "unix", path })).close();
});

Deno.test("a helper that ended is not waited for", async () => {
  const child = new Deno.Command("true").spawn();
  assertEquals(await waitForSocket("/nowhere", child), false);
});
