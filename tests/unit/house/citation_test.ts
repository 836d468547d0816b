/** Code and docs cite only files of this repository, and sections that are there. */
import { assertEquals } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("every section of docs/contracts.md that is cited is there", async () => {
  const page = await Deno.readTextFile(fromRoot("docs/contracts.md"));
  const sections = new Set([...page.matchAll(/^## (\d+)\. /gm)].map(([, number]) => number));
  const headings = new Set([...page.matchAll(/^#{2,4} (.+)$/gm)].map(([, heading]) => heading));
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    const joined = text.replaceAll(/\n\s*(\*|\/\/|#)? ?/g, " ");
    for (const [cited, number, , heading] of joined.matchAll(/contracts\.md §(\d+)(, "([^"]+)")?/g)) {
      if (!sections.has(number)) broken.push(`${path}: ${cited}`);
      if (heading && !headings.has(heading)) broken.push(`${path}: ${cited}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("nothing names a file beside the repository: a clone has no neighbours", async () => {
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    for (const [cited] of text.matchAll(/(\.\.\/)+shared\/|\bshared\/tools\b/g)) {
      if (path !== "tests/unit/house/citation_test.ts") broken.push(`${path}: ${cited}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("nothing cites a specification, a contract or an issue outside the repository", async () => {
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    for (
      const [cited] of text.matchAll(/\bspec\.md\b|(?<!docs\/|\(|\[)\bcontracts\.md §|\b[Ii]ssue \d+\b/g)
    ) {
      broken.push(`${path}: ${cited}`);
    }
  }
  assertEquals(broken, []);
});

async function* texts(): AsyncGenerator<{ path: string; text: string }> {
  const self = "tests/unit/house/citation_test.ts";
  for (const root of ["cmd", "lib", "ffi", "scripts", "tests", "docs"]) yield* textsBelow(root);
  for (const path of ["main.ts", "Makefile", "README.md", "CONTRIBUTING.md"]) {
    yield { path, text: await Deno.readTextFile(fromRoot(path)) };
  }

  async function* textsBelow(folder: string): AsyncGenerator<{ path: string; text: string }> {
    for await (const { name, isDirectory } of Deno.readDir(fromRoot(folder))) {
      const path = `${folder}/${name}`;
      if (isDirectory) yield* textsBelow(path);
      else if (/\.(tsx?|sh|md)$/.test(name) && path !== self) {
        yield { path, text: await Deno.readTextFile(fromRoot(path)) };
      }
    }
  }
}
