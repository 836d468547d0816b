/** `make build` gives strings that look like paths of modules another ending (scripts/build.ts). */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { MODULE_PATH } from "../../../scripts/build_stage.ts";
import { codeBelow, filesBelow, fromRoot } from "../../helper/repo.ts";

Deno.test("each string that looks like a relative path of a module is one", async () => {
  const files = ["main.ts", ...(await Promise.all(["cmd", "lib", "ffi"].map(codeBelow))).flat()];
  const others: string[] = [];
  let computed = 0;
  for (const file of files) {
    const code = (await Deno.readTextFile(fromRoot(file))).replaceAll(/^\s*(?:\/\*\*|\*|\/\/).*$/gm, "");
    for (const [, found] of code.matchAll(MODULE_PATH)) {
      const path = join(dirname(file), `${found.slice(1)}.ts`);
      if (!path.includes("${")) {
        if (!await Deno.stat(fromRoot(path)).then(({ isFile }) => isFile, () => false)) {
          others.push(`${file}: ${path}`);
        }
        continue;
      }
      computed++;
      const folder = path.slice(0, path.indexOf("${")).replace(/\/[^/]*$/, "");
      if (!(await filesBelow(folder, /\.ts$/)).length) others.push(`${file}: ${path}`);
    }
  }
  assertEquals(others, []);
  assert(computed > 0);
});
