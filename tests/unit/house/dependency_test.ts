/**
 * deno.json names what is imported, docs/design/dependencies.md says why, and nothing is imported past
 * deno.json.
 */
import { assert, assertEquals } from "@std/assert";
import config from "../../../deno.json" with { type: "json" };
import { fromRoot } from "../../helper/repo.ts";

const NAMED = Object.keys(config.imports).map((name) => name.replace(/\/$/, ""));

Deno.test("every dependency of deno.json is imported somewhere, and named in docs/design/dependencies.md", async () => {
  const imported = new Set<string>();
  for (const root of ["cmd", "lib", "scripts", "tests", "ffi"]) {
    for await (const text of sources(root)) {
      for (const [, specifier] of text.matchAll(/(?:from|import|import\() ?"([^".][^"]*)"/g)) {
        imported.add(specifier);
      }
      for (const [, specifier] of text.matchAll(/resolve\("([^".][^"]*)"\)/g)) imported.add(specifier);
    }
  }
  const unused = NAMED.filter((name) =>
    ![...imported].some((each) => each === name || each.startsWith(`${name}/`))
  );
  assertEquals(unused, []);
  const page = await Deno.readTextFile(fromRoot("docs/design/dependencies.md"));
  for (const name of NAMED) {
    assert(page.includes(name.replace("@modelcontextprotocol/server-", "server-")), name);
  }
});

Deno.test("versions in deno.json are exact", () => {
  for (const specifier of Object.values(config.imports)) {
    assert(/@\d+\.\d+\.\d+(\/|$)/.test(specifier), specifier);
  }
});

async function* sources(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(fromRoot(folder))) {
    if (isDirectory) yield* sources(`${folder}/${name}`);
    else if (/\.tsx?$/.test(name)) yield await Deno.readTextFile(fromRoot(`${folder}/${name}`));
  }
}
