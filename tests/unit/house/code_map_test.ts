/** docs/reference/code-map.md has one line for every folder of code, and none for a folder that is gone. */
import { assertEquals } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("docs/reference/code-map.md names every folder of lib, cmd and ffi", async () => {
  const page = await Deno.readTextFile(fromRoot("docs/reference/code-map.md"));
  const named = [...page.matchAll(/^\| `((?:lib|cmd|ffi)\/[^`]+)` /gm)].map(([, folder]) => folder);
  const folders = (await Promise.all(["lib", "cmd", "ffi"].map((root) => foldersWithCode(root)))).flat();
  assertEquals(named.toSorted(), folders.filter((folder) => folder !== "cmd").toSorted());
});

Deno.test("docs/reference/code-map.md names every folder of tests", async () => {
  const page = await Deno.readTextFile(fromRoot("docs/reference/code-map.md"));
  const named = [...page.matchAll(/^\| `(tests\/[^`/]+)` /gm)].map(([, folder]) => folder);
  const folders: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(fromRoot("tests"))) {
    if (isDirectory) folders.push(`tests/${name}`);
  }
  assertEquals(named.toSorted(), folders.toSorted());
});

/** Folders that hold a TypeScript file, below `root`, relative to the repository. */
async function foldersWithCode(root: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(fromRoot(root)));
  const below = await Promise.all(
    entries.filter(({ isDirectory }) => isDirectory).map(({ name }) => foldersWithCode(`${root}/${name}`)),
  );
  return [...entries.some(({ name }) => /\.tsx?$/.test(name)) ? [root] : [], ...below.flat()];
}
