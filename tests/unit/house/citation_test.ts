/** Code and docs cite only files of this repository, and sections that are there. */
import { assertEquals } from "@std/assert";
import { dirname, join, normalize } from "node:path/posix";
import { fromRoot } from "../../helper/repo.ts";

const CONTRACTS = "docs/design/contracts";
const CITATION = /docs\/design\/contracts\/([\w-]+\.md) §(\d+)(, "([^"]+)")?/g;

Deno.test("every section and heading of docs/design/contracts that is cited is there", async () => {
  const pages = new Map<string, { section: string; headings: Set<string> }>();
  for await (const { name } of Deno.readDir(fromRoot(CONTRACTS))) {
    const page = await Deno.readTextFile(fromRoot(`${CONTRACTS}/${name}`));
    const [, section = ""] = /^# §(\d+) /.exec(page) ?? [];
    if (name !== "README.md") assertEquals(name.split("-")[0], section.padStart(2, "0"), name);
    pages.set(name, {
      section,
      headings: new Set([...page.matchAll(/^#+ (.+)$/gm)].map(([, title]) => title)),
    });
  }
  const sections = new Set([...pages.values()].map(({ section }) => section));
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    const joined = text.replaceAll(/\n\s*(\*|\/\/|#)? ?/g, " ");
    for (const [cited, name, number, , heading] of joined.matchAll(CITATION)) {
      const page = pages.get(name);
      if (!page || page.section !== number) broken.push(`${path}: ${cited}`);
      else if (heading && !page.headings.has(heading)) broken.push(`${path}: ${cited}`);
    }
    if (!path.startsWith(CONTRACTS)) continue;
    for (const [cited, number] of joined.matchAll(/(?<!RFC \d+ )§(\d+)/g)) {
      if (!sections.has(number)) broken.push(`${path}: ${cited}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("every page of docs that is named or linked is there", async () => {
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    for (const [cited] of text.matchAll(/(?<![\w/.-])docs\/[\w/.-]+\.(?:md|sh|yaml|hcl)\b/g)) {
      if (!await exists(cited)) broken.push(`${path}: ${cited}`);
    }
    if (!path.endsWith(".md")) continue;
    for (const [, target] of text.matchAll(/\]\(([\w/.-]+)(?:#[^)]*)?\)/g)) {
      if (!await exists(normalize(join(dirname(path), target)))) broken.push(`${path}: ${target}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("every file and folder of the code that a page names is there", async () => {
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    if (!path.endsWith(".md")) continue;
    for (
      const [cited] of text.matchAll(
        /(?<![\w/.-])(?:cmd|lib|ffi|scripts|tests|schemas|fixtures)\/[\w./-]+\w/g,
      )
    ) {
      // A placeholder, such as RESOURCE.
      if (/[A-Z]{4}/.test(cited)) continue;
      if (!await exists(cited)) broken.push(`${path}: ${cited}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("every anchor of a link between pages is a heading there", async () => {
  const broken: string[] = [];
  for await (const { path, text } of texts()) {
    if (!path.endsWith(".md") || path.startsWith("docs/reference/")) continue;
    for (const [, target, anchor] of text.matchAll(/\]\(([\w/.-]+\.md)?#([^)]*)\)/g)) {
      const page = await Deno.readTextFile(fromRoot(target ? join(dirname(path), target) : path));
      const anchors = [...page.matchAll(/^#+ (.+)$/gm)].map(([, title]) => anchorOf(title));
      if (!anchors.includes(anchor)) broken.push(`${path}: ${target ?? ""}#${anchor}`);
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
      const [cited] of text.matchAll(/\bspec\.md\b|\bcontracts\.md\b|\b[Ii]ssue \d+\b/g)
    ) {
      broken.push(`${path}: ${cited}`);
    }
  }
  assertEquals(broken, []);
});

const exists = (path: string) => Deno.stat(fromRoot(path)).then(() => true, () => false);

/** Anchor that GitHub gives a heading. */
function anchorOf(title: string): string {
  return title.toLowerCase().replaceAll(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-");
}

async function* texts(): AsyncGenerator<{ path: string; text: string }> {
  const self = "tests/unit/house/citation_test.ts";
  for (const root of ["cmd", "lib", "ffi", "scripts", "tests", "docs", ".github"]) yield* textsBelow(root);
  for (const path of ["main.ts", "Makefile", "README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md"]) {
    yield { path, text: await Deno.readTextFile(fromRoot(path)) };
  }

  async function* textsBelow(folder: string): AsyncGenerator<{ path: string; text: string }> {
    for await (const { name, isDirectory } of Deno.readDir(fromRoot(folder))) {
      const path = `${folder}/${name}`;
      if (isDirectory) yield* textsBelow(path);
      else if (/\.(tsx?|sh|md|ya?ml)$/.test(name) && path !== self) {
        yield { path, text: await Deno.readTextFile(fromRoot(path)) };
      }
    }
  }
}
