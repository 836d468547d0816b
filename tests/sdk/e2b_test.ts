/**
 * E2B's own client, unmodified, against sbx e2b and a real VM: one sandbox
 * takes every case of e2b_client.mjs.
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { startE2b } from "../helper/e2b_server.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("E2B's client, unmodified: sandboxes, commands, files, terminals, ports, and what is refused", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    await t.step("it is off until a person switches it on", async () => {
      const { code, stderr } = await sbx.cli("e2b", "--port", "0");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "sbx settings set app.e2b true");
    });
    await sbx.ok("settings", "set", "app.e2b", "true");
    const server = await startE2b(sbx);
    assertEquals((await Deno.stat(server.keyFile)).mode! & 0o777, 0o600);
    assertEquals(server.keyFile, join(sbx.home, "run", "e2b.key"));
    const status = await sbx.ok("status", "--json");
    const forks: Record<string, string> = status.includes('"live_fork": true') ? { FORKS: "1" } : {};
    const { code, lines, stderr } = await server.client("e2b_client.mjs", forks);
    for (const line of lines) {
      await t.step(line.replace(/^(ok|FAILED) /, ""), () => assertMatch(line, /^ok /, stderr));
    }
    assertEquals([code, lines.length], [0, 14], stderr);
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms?.length ?? 0, 0);
    assertEquals(await server.end(), 0);
    assertEquals(await Deno.stat(server.keyFile).catch(() => "none"), "none");
  } finally {
    await sbx.dispose();
  }
});
