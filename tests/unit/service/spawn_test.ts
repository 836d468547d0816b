import { assertEquals } from "@std/assert";
import { untilListening } from "../../../lib/service/vm/launch.ts";
import { bindLate } from "../../helper/late_socket.ts";

Deno.test("a VM's process is waited for until it listens, not until its socket exists", async () => {
  const path = `${await Deno.makeTempDir()}/s`;
  await using late = await bindLate(path);
  let isListening = false;
  const listening = untilListening({ exited: late.child.status }, path, "").then(() => isListening = true);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assertEquals(isListening, false);
  await late.listen();
  await listening;
  (await Deno.connect({ transport: "unix", path })).close();
});
