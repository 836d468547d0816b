import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { GuestLink } from "../../../lib/machine/guest/mod.ts";
import { endOf } from "../../../lib/session/session.ts";
import type { Machine, MachineExit } from "../../../lib/machine/vm/mod.ts";

/** @param console its text @param lost why the guest is, while its machine runs on */
async function end(console: string, code = 0, isStopping = false, lost?: SbxError) {
  const path = join(await Deno.makeTempDir(), "console.log");
  await Deno.writeTextFile(path, console);
  const exited = Promise.withResolvers<MachineExit>();
  const exit = () => exited.resolve({ code, signal: null });
  if (!lost) exit();
  const machine = { exited: exited.promise, kill: () => Promise.resolve(exit()) } as Partial<
    Machine
  > as Machine;
  const link = { lost: lost ? Promise.reject(lost) : new Promise<never>(() => {}) } as Partial<
    GuestLink
  > as GuestLink;
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

const AGENT_ENDED = "sbx-init: sbx-pty-agent ended\r\n";

Deno.test("a machine that init powered off since its agent ended was not stopped by anyone", async () => {
  assertEquals(await end(AGENT_ENDED), {
    state: "Defunct",
    last_error: "the machine ended unexpectedly (its init: the agent ended)",
  });
  assertEquals(await end(AGENT_ENDED, 0, true), { state: "Stopped" });
});

Deno.test("the error of a lost guest has the end that its console shows", async () => {
  const lost = new SbxError("guest.failed", "the connection ended");
  const [panicked, silent] = await Promise.all([end(PANIC, 0, false, lost), end("", 0, false, lost)]);
  assertEquals(panicked, {
    state: "Defunct",
    last_error: "the connection ended (its kernel: Fatal exception)",
  });
  assertEquals(silent, { state: "Defunct", last_error: "the connection ended" });
});
