/** Programs that give secrets, confined by the options of `sbx credentials add`: the real CLI and service. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { decoySecret } from "../../lib/credential/mod.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("a confined program gives its secret, and the list shows its rights", async () => {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const sbx = await Sbx.make();
  try {
    await sbx.ok("start");
    const file = join(dir, "token");
    const key = decoySecret("github");
    await Deno.writeTextFile(file, key);
    const add = (...more: string[]) => sbx.cli("credentials", "add", "github", "--program", ...more);
    const refused = await add("--confine", "--", "cat", file);
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.stderr, "the program cat failed");
    const given = await add("--confine", "--may-read", file, "--label", "confined", "--", "cat", file);
    assertEquals(given.code, 0, given.stderr);
    assertEquals((await add("--label", "plain", "--", "cat", file)).code, 0);
    const lines = (await sbx.ok("credentials", "list")).split("\n");
    const lineOf = (label: string) => lines.find((line) => line.includes(` ${label} `)) ?? "";
    assertStringIncludes(lineOf("confined"), `confined but for ${file}`);
    assertStringIncludes(lineOf("plain"), "not confined");
    assert(!lines.join("\n").includes(key));
    const { credentials } = JSON.parse(await sbx.ok("credentials", "list", "--json"));
    const [{ origin }] = credentials.filter(({ label }: { label: string }) => label === "confined");
    assertEquals(origin.confine, { read: [file] });
    for (const words of [["--may-read", file, "--", "cat"], ["--may-connect", "--", "cat"]]) {
      const wrong = await add(...words);
      assertEquals(wrong.code, 2);
      assertStringIncludes(wrong.stderr, "are for --confine");
    }
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
