/** Records of sessions whose process is gone. */
import { assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { settle } from "../../../lib/service/vm/vm_process.ts";
import type { SessionPaths } from "../../../lib/session/mod.ts";
import { limitChild } from "../../helper/child.ts";
import { SESSION, writeEvents } from "../../helper/ledger.ts";

Deno.test("the ledger of a VM that exited without a report is sealed, but not while its process may still write it", async () => {
  const base = await Deno.makeTempDir();
  // The command line of a session's process names the session.
  const writer = limitChild(
    new Deno.Command("sh", { args: ["-c", "read line", SESSION], stdin: "piped" }).spawn(),
  );
  const other = limitChild(new Deno.Command("cat", { stdin: "piped" }).spawn());
  try {
    const paths = {
      dir: join(base, "sessions", SESSION),
      ledger: join(base, "ledgers", SESSION, "session.db"),
      state: join(base, "sessions", SESSION, "state.json"),
      socket: join(base, "vm.sock"),
      sockets: join(base, "vm"),
    } as SessionPaths;
    await Deno.mkdir(dirname(paths.ledger), { recursive: true });
    await Deno.mkdir(paths.dir, { recursive: true });
    const settled = async (state: "Running" | "Defunct", pid: number) => {
      await writeEvents(paths.ledger, 1);
      await Deno.remove(`${paths.ledger}.seal`);
      const now = await settle(paths, { state, boot_stages: [], pid });
      return [now.state, (await verifyLedger(paths.ledger)).sealed];
    };
    assertEquals(await settled("Running", writer.pid), ["Defunct", false]);
    assertEquals(
      await settled("Running", other.pid),
      ["Defunct", true],
      "the number is another program's by now",
    );
    writer.kill("SIGKILL");
    await Promise.all([writer.stdin.close().catch(() => {}), writer.status]);
    assertEquals(await settled("Running", writer.pid), ["Defunct", true]);
    assertEquals(
      await settled("Defunct", writer.pid),
      ["Defunct", true],
      "also one that is deleted afterwards",
    );
    assertEquals(await verifyLedger(paths.ledger), { ok: true, events: 4, sealed: true });
  } finally {
    other.kill("SIGKILL");
    await Promise.all([other.stdin.close().catch(() => {}), other.status]);
    await Deno.remove(base, { recursive: true });
  }
});
