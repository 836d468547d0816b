/** Processes whose program was replaced: named by status, and restarted with the new one. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { SystemStatus } from "../../lib/client/api/mod.ts";
import { ownRuntime } from "../helper/own_runtime.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("after an upgrade the service and the gateway are named, and restarted", async () => {
  const programs = await ownRuntime();
  const sbx = await Sbx.make({ programs: programs.dir, spare: false });
  const old = async () => {
    const { stdout } = await sbx.cli("status", "--json");
    const { service } = JSON.parse(stdout) as { service: SystemStatus };
    return service.old_programs.map(({ program }) => program);
  };
  try {
    await sbx.ok("start");
    assertEquals(await old(), []);
    await programs.replace();
    assertEquals(await old(), ["service", "gateway"]);
    const { stdout } = await sbx.cli("status");
    assertStringIncludes(stdout, "restart them with sbx update restart");
    assertEquals(JSON.parse(await sbx.ok("upgrade", "restart", "--json")), {
      restarted: ["gateway", "service"],
      left: [],
    });
    assertEquals(await old(), []);
    assertStringIncludes(await sbx.ok("update", "restart"), "nothing runs a replaced program");
  } finally {
    await sbx.dispose();
    await Deno.remove(programs.dir, { recursive: true });
  }
});
