import { assert, assertEquals } from "@std/assert";
import { command } from "../../../cmd/sbx/vm/fork.ts";
import { FORK_COUNT_MAX } from "../../../lib/client/api/mod.ts";
import { runDeno } from "../../helper/repo.ts";

Deno.test("sbx fork allows as many VMs as the service", () => {
  const about = command.options?.find(({ name }) => name === "count")?.about;
  assert(about?.includes(`at most ${FORK_COUNT_MAX};`), about);
});

Deno.test("no command of the daily ones loads the schemas of the API", async () => {
  for (const name of ["list", "exec", "fork", "stop", "start", "cp", "shell", "jobs", "delete"]) {
    const folder = name === "cp" ? "files" : "vm";
    const { modules, roots } = JSON.parse(await runDeno(["info", "--json", `cmd/sbx/${folder}/${name}.ts`]));
    const loaded = staticallyLoaded(roots[0], modules);
    assertEquals(loaded.filter((path) => /zod|lib\/client\/api\/(?:common|schema)\.ts/.test(path)), [], name);
  }
});

interface Module {
  specifier: string;
  dependencies?: { isDynamic?: boolean; code?: { specifier?: string } }[];
}

/** Modules that `root` loads before it runs. */
function staticallyLoaded(root: string, modules: Module[]): string[] {
  const byName = new Map(modules.map((module) => [module.specifier, module]));
  const found = new Set<string>();
  const waiting = [root];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name)) continue;
    found.add(name);
    for (const { isDynamic, code } of byName.get(name)?.dependencies ?? []) {
      if (!isDynamic && code?.specifier) waiting.push(code.specifier);
    }
  }
  return [...found];
}
