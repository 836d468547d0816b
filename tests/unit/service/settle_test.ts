import { assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { home } from "../../../lib/base/home/mod.ts";
import type { MachineInfo } from "../../../lib/session/ipc/mod.ts";
import { settle } from "../../../lib/service/vm/vm_process.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { writeBeside } from "../../../lib/session/suspend.ts";
import { exists } from "../../helper/exists.ts";

const ORIGIN = { accelerator: "tcg", host: { hypervisor: "", processor: "", machine: "" } } as const;

/** The state of a VM whose process was killed, and whether its memory is still there. */
async function killed(state: MachineInfo["state"], isDiskChanged: boolean) {
  const dir = await Deno.makeTempDir();
  try {
    const paths = sessionPaths(home({ get: (name) => name === "SBX_HOME" ? dir : undefined }), "id");
    await Deno.mkdir(paths.suspended, { recursive: true });
    await Deno.writeTextFile(paths.scratch, "disk");
    await Deno.mkdir(dirname(paths.ledger), { recursive: true });
    await writeBeside(paths, ORIGIN, { programs: [] });
    if (isDiskChanged) await Deno.writeTextFile(paths.scratch, "changed");
    const settled = await settle(paths, { state, boot_stages: [], pid: 1 });
    return [settled.state, await exists(paths.suspended)];
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a VM whose process was killed has its memory as long as its disk is as it was, and none after", async () => {
  for (const state of ["Booting", "Suspended"] as const) {
    assertEquals(await killed(state, false), ["Suspended", true], state);
    assertEquals(await killed(state, true), ["Defunct", false], state);
  }
});

Deno.test("what holds a VM back is its file's, whatever the state says that its process left", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const paths = sessionPaths(home({ get: (name) => name === "SBX_HOME" ? dir : undefined }), "id");
    await Deno.mkdir(paths.dir, { recursive: true });
    await Deno.mkdir(dirname(paths.ledger), { recursive: true });
    const cause = {
      finding_id: "f",
      event_id: "e",
      rule_id: "exec-nc",
      severity: "high" as const,
      title: "nc",
    };
    const hold = {
      since_unix_ms: 1,
      actions: [{ action: "pause" as const, by: "profile" as const, cause }],
      notes: [],
    };
    const last = { boot_stages: [], pid: 0 };
    for (const state of ["Running", "Stopped"] as const) {
      await Deno.writeTextFile(paths.response, JSON.stringify(hold));
      assertEquals((await settle(paths, { ...last, state })).response, hold);
      await Deno.remove(paths.response);
      assertEquals((await settle(paths, { ...last, state, response: hold })).response, undefined);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
