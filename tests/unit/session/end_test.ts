import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { GuestLink } from "../../../lib/machine/guest/mod.ts";
import { endOf } from "../../../lib/session/session.ts";
import type { Machine } from "../../../lib/machine/vm/mod.ts";

/** @param console its text */
async function end(console: string, code = 0, isStopping = false) {
  const path = join(await Deno.makeTempDir(), "console.log");
  await Deno.writeTextFile(path, console);
  const machine = { exited: Promise.resolve({ code, signal: null }) } as Partial<Machine> as Machine;
  const link = { lost: new Promise<never>(() => {}) } as Partial<GuestLink> as GuestLink;
  try {
    return await endOf(machine, () => link, () => isStopping, path);
  } finally {
    await Deno.remove(join(path, ".."), { recursive: true });
  }
}

const PANIC = "[ 9.1] Kernel panic - not syncing: Fatal exception\r\n";

Deno.test("a machine that powers off is stopped; one whose kernel panics is not, though QEMU ends with 0 too", async () => {
  assertEquals(await end("reboot: Restarting system"), { state: "Stopped" });
  assertEquals(await end(PANIC), {
    state: "Defunct",
    last_error: "the machine ended unexpectedly (its kernel: Fatal exception)",
  });
  assertEquals(await end("", 1), {
    state: "Defunct",
    last_error: "the machine ended unexpectedly (exit code 1)",
  });
  assertEquals(await end(PANIC, 0, true), { state: "Stopped" });
});
