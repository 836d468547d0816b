/** A learned profile without the rules that its commands do not need: each trial is a VM of its own. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { makeUpstreams, RULES } from "../e2e/net_world.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("a profile is minimised to what the commands of a session cannot do without", async () => {
  const folder = await Deno.makeTempDir();
  const world = await makeUpstreams(folder);
  const sbx = await Sbx.make();
  try {
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });
    await sbx.ok("profile", "copy", "code", "net");
    await Deno.writeTextFile(join(sbx.home, "profiles/net/profile.toml"), RULES, { append: true });
    await sbx.ok("create", "short", "--profile", "net");
    const line =
      "curl -sSf https://site.example/needed && { curl -sS https://git.example/ >/dev/null; true; }";
    await sbx.ok("exec", "short", "-c", line);
    const made = await sbx.ok("learn", "short", "--minimise", "--runs", "40", "--save", "least", "--json");
    const { rules, minimised, path } = JSON.parse(made);
    assertEquals([minimised.commands, minimised.complete], [1, true], JSON.stringify(minimised));
    const requests = rules.map(({ name }: { name: string }) => name).filter((name: string) =>
      name.startsWith("GET ")
    );
    assertEquals(requests, ["GET https://site.example/needed"]);
    assert(minimised.left_out.length > 0);
    const text = await Deno.readTextFile(path);
    assertStringIncludes(text, 'action = "block"');
    assertEquals(text.includes('action = "ask"'), false, "what the trials blocked is no question");
    assertEquals((await sbx.ok("profile", "list")).includes("learn-"), false, "trials leave no profile");
    assertEquals((await sbx.ok("list")).includes("learn-"), false);
  } finally {
    await sbx.dispose();
    await world.close();
    await Deno.remove(folder, { recursive: true });
  }
});
