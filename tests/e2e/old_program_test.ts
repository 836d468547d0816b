/** A VM across an upgrade: named while its process runs the old program, and restarted with the new one. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { SystemStatus } from "../../lib/client/api/mod.ts";
import { ownRuntime } from "../helper/own_runtime.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("a VM goes on with the new program after update restart", async () => {
  const programs = await ownRuntime();
  const sbx = await Sbx.make({ programs: programs.dir, spare: false });
  try {
    await sbx.ok("create", "demo");
    await sbx.ok("exec", "demo", "--", "sh", "-c", "echo kept >/workspace/file");
    assertEquals((await sbx.ok("list")).includes("old program"), false);
    await programs.replace();
    assertStringIncludes(await sbx.ok("list"), "Running, old program");
    const { stdout } = await sbx.cli("status", "--json");
    const { hypervisor } = (JSON.parse(stdout) as { service: SystemStatus }).service;
    if (!hypervisor.features.suspend) {
      const kept = await sbx.cli("update", "restart");
      assertEquals(kept.code, 1);
      assertStringIncludes(kept.stderr, "demo runs on: it cannot be suspended on this host");
      assertStringIncludes(await sbx.ok("list"), "Running, old program");
    }
    assertStringIncludes(await sbx.ok("update", "restart", "--stop"), "VM demo");
    assertEquals((await sbx.ok("list")).includes("old program"), false);
    assertEquals(await sbx.ok("exec", "demo", "--", "cat", "/workspace/file"), "kept\n");
  } finally {
    await sbx.dispose();
    await Deno.remove(programs.dir, { recursive: true });
  }
});
