import { assert, assertEquals } from "@std/assert";
import { allGroups } from "../../../cmd/admin/main.ts";
import { allCommands } from "../../../cmd/sbx/commands.ts";
import { routeTable } from "../../../lib/client/api/mod.ts";
import { isGroup } from "../../../lib/base/args/mod.ts";
import { PAGES } from "../../../scripts/docs.ts";
import { SUMMARIES_FILE, summariesModule } from "../../../scripts/cli_summaries.ts";
import { ROUTES_FILE, routesModule } from "../../../scripts/gateway_routes.ts";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

for (const { file, text } of PAGES) {
  Deno.test(`docs/reference/${file} is what the code generates (make docs)`, async () => {
    assertEquals(await Deno.readTextFile(fromRoot(`docs/reference/${file}`)), await text());
  });
}

Deno.test(`${ROUTES_FILE} is what the code generates (make docs)`, async () => {
  assertEquals(await Deno.readTextFile(fromRoot(ROUTES_FILE)), routesModule());
});

Deno.test(`${SUMMARIES_FILE} is what the code generates (make docs)`, async () => {
  assertEquals(await Deno.readTextFile(fromRoot(SUMMARIES_FILE)), await summariesModule());
});

const page = (file: string) => Promise.resolve(PAGES.find((page) => page.file === file)!.text());

Deno.test("every command, subcommand and route has its section in the reference", async () => {
  const cli = await page("cli.md");
  const commands = await allCommands();
  for (const { name } of commands.flatMap((entry) => isGroup(entry) ? entry.subcommands : [entry])) {
    assert(cli.includes(`\n## sbx ${name}\n`), name);
  }
  for (const { name } of (await allGroups()).flatMap(({ subcommands }) => subcommands)) {
    assert(cli.includes(`\n## sbx-admin ${name}\n`), name);
  }
  const api = await page("api.md");
  // The document itself is in no document.
  const routes = routeTable().filter(({ path }) => path !== "/openapi.json");
  for (const { method, path } of routes) {
    assert(api.includes(`\n### ${method} ${path}\n`), `${method} ${path}`);
  }
});

Deno.test("every link of the reference leads to a heading of its page", async () => {
  for (const { file, text } of PAGES) {
    const written = await text();
    const headings = [...written.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
      title.toLowerCase().replaceAll(" ", "-")
    );
    const links = [...written.matchAll(/\]\(#([^)]+)\)/g)].map(([, target]) => target);
    // Settings are one table, folders, files and reports link nowhere, and views lead to other pages.
    assert(
      links.length > 10 ||
        ["code-map.md", "files.md", "providers.md", "reports.md", "settings.md", "views.md", "wire.md"]
          .includes(file),
      `${file} has links`,
    );
    for (const link of links) assert(headings.includes(link), `${file}: #${link}`);
  }
});

Deno.test("docs/README.md lists every page of its shelves", async () => {
  const index = await Deno.readTextFile(fromRoot("docs/README.md"));
  const missing: string[] = [];
  for (const shelf of ["guides", "concepts", "reference", "design"]) {
    for await (const { name, isFile } of Deno.readDir(fromRoot(`docs/${shelf}`))) {
      if (isFile && name.endsWith(".md") && !index.includes(`](${shelf}/${name})`)) {
        missing.push(`${shelf}/${name}`);
      }
    }
  }
  assertEquals(missing, []);
});

Deno.test("make lists every target, within 80 columns", async () => {
  const makefile = await Deno.readTextFile(fromRoot("Makefile"));
  const [, phony] = /^\.PHONY: (.*)$/m.exec(makefile)!;
  const { stdout } = await runChild("make", { args: ["--no-print-directory"], cwd: fromRoot("") });
  const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
  assertEquals(lines.map((line) => line.trim().split(" ")[0]).toSorted(), phony.split(" ").toSorted());
  assertEquals(lines.filter((line) => line.length > 80), []);
});
