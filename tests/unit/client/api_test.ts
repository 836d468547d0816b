/** The API's definitions, whatever was loaded before them. */
import { assertEquals } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("the API loads after every schema that it takes from elsewhere", async () => {
  const sources = new Set<string>();
  for await (const { name } of Deno.readDir(fromRoot("lib/client/api"))) {
    const text = await Deno.readTextFile(fromRoot(`lib/client/api/${name}`));
    for (const [, path] of text.matchAll(/ from "\.\.\/\.\.\/(.*)";$/gm)) sources.add(path);
  }
  const imports = [...sources].sort().map((path) => `import "./lib/${path}";`);
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", [...imports, 'import "./lib/client/api/mod.ts";'].join("\n")],
    cwd: fromRoot("."),
    stdin: "null",
  }).output();
  assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
});
