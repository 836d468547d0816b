/**
 * Folders state their purpose in the header of their mod.ts, from which
 * docs/reference/code-map.md is generated.
 */
import { assert, assertEquals } from "@std/assert";
import { AREAS, codeFolders } from "../../../scripts/docs_code_map.ts";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** Longest purpose, in characters: one line of a table. */
const PURPOSE_MAX = 110;

Deno.test("every folder with a mod.ts or main.ts, at any depth, states its purpose in one line", async () => {
  const folders = await codeFolders();
  assert(folders.length > 100);
  assertEquals(
    folders.filter(({ purpose = "" }) => purpose.length < 8 || purpose.length > PURPOSE_MAX)
      .map(({ path, entry, purpose }) => `${path}/${entry}: ${purpose ?? "no header"}`),
    [],
  );
  const files = (await Promise.all(["cmd", "lib", "ffi"].map(codeBelow))).flat();
  const withEntry = files.filter((path) => path.endsWith("/mod.ts")).map((path) =>
    path.slice(0, -"/mod.ts".length)
  );
  const found = new Set(folders.map(({ path }) => path));
  assertEquals(withEntry.filter((path) => !found.has(path)), []);
});

Deno.test("every area of lib has its line", async () => {
  const areas = (await Array.fromAsync(Deno.readDir(fromRoot("lib")))).map(({ name }) => name);
  assertEquals(Object.keys(AREAS).toSorted(), areas.toSorted());
});

Deno.test("CONTRIBUTING.md names every folder of tests", async () => {
  const page = await Deno.readTextFile(fromRoot("CONTRIBUTING.md"));
  const named = [...page.matchAll(/^\| `(tests\/[^`/]+)` /gm)].map(([, folder]) => folder);
  const folders: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(fromRoot("tests"))) {
    if (isDirectory) folders.push(`tests/${name}`);
  }
  assertEquals(named.toSorted(), folders.toSorted());
});
