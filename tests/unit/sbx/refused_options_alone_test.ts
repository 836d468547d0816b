/** Wrong options: refused before a service is started for the call. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { loadCommand } from "../../../cmd/sbx/commands.ts";
import { isGroup, lastWordOf, parseArguments } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

/** Runs a command line without `sbx`. */
async function call(...argv: string[]): Promise<number> {
  const [word, ...rest] = argv;
  const found = await loadCommand(word);
  const command = isGroup(found) ? found.subcommands.find((each) => lastWordOf(each) === rest[0])! : found;
  const args = isGroup(found) ? rest.slice(1) : rest;
  return await command.run(await parseArguments({ program: "sbx", command }, args));
}

Deno.test("a wrong option starts no service", async () => {
  const before = Deno.env.get("SBX_HOME");
  const dir = await Deno.makeTempDir();
  // No service can start in a home whose folder for sockets is a file.
  await Deno.writeTextFile(join(dir, "run"), "");
  Deno.env.set("SBX_HOME", dir);
  try {
    for (
      const line of [["run", "--", "true"], ["create", "demo"], ["net", "demo", "--address", "203.0.113.*"]]
    ) {
      const { code } = await assertRejects(() => call(...line), SbxError);
      assertEquals(code, "home.unusable", line.join(" "));
    }
    const wrong = [
      ...["run", "ci"].flatMap((name) => [
        [name, "--cpus", "many", "--", "true"],
        [name, "--limit", "nonsense=1", "--", "true"],
        [name, "--queue", "long", "--", "true"],
        [name, "--credential", "anthropic", "--", "true"],
      ]),
      ["run", "--pull", "--", "true"],
      ["run", "--to", "/srv", "--", "true"],
      ["create", "demo", "--limit", "nonsense=1"],
      ["create", "demo", "--to", "/srv"],
      ["events", "demo", "--since", "soon"],
      ["net", "demo", "--address", "300.1.1.1"],
      ["net", "--all", "--address", "example.com"],
      ["events", "demo", "--by", "hour", "--until", "soon"],
      ["timeline", "demo", "--until", "soon"],
      ["allow", "ask-1", "--for", "soon"],
      ["deny", "ask-1", "--host", "--for", "once"],
      ["credentials", "audit", "--limit", "many"],
      ["credentials", "audit", "--since", "soon"],
      ["mcp", "login", "docs", "--port", "80"],
    ];
    for (const line of wrong) {
      const { code, hint } = await assertRejects(() => call(...line), SbxError, undefined, line.join(" "));
      assertEquals([code, typeof hint], ["usage.invalid", "string"], line.join(" "));
    }
    for (const name of ["run", "ci"]) {
      const { code } = await assertRejects(
        () => call(name, "--from-dir", join(dir, "gone"), "--", "true"),
        SbxError,
      );
      assertEquals(code, "file.not_found", name);
    }
  } finally {
    if (before === undefined) Deno.env.delete("SBX_HOME");
    else Deno.env.set("SBX_HOME", before);
    await Deno.remove(dir, { recursive: true });
  }
});
