/** Query engines are hundreds of megabytes: the program neither contains nor names them in an import. */
import { assert, assertEquals } from "@std/assert";
import config from "../../../deno.json" with { type: "json" };
import engines from "../../../scripts/engines/package.json" with { type: "json" };
import { ENGINES } from "../../../lib/fleet/engine.ts";
import { fromRoot, runDeno } from "../../helper/repo.ts";

Deno.test("no module of the program imports a query engine", async () => {
  const { modules } = JSON.parse(await runDeno(["info", "--json", "cmd/all.ts"])) as {
    modules: { specifier: string }[];
  };
  assert(modules.some(({ specifier }) => specifier.endsWith("lib/fleet/engine.ts")));
  assertEquals(modules.filter(({ specifier }) => /npm:.*(duckdb|chdb)/.test(specifier)), []);
  assertEquals(Object.keys(config.imports).filter((name) => /duckdb|chdb/.test(name)), []);
});

Deno.test("the versions that are loaded are those that make engines installs", async () => {
  assertEquals(engines.dependencies as Record<string, string>, { ...ENGINES });
  const lock = JSON.parse(await Deno.readTextFile(fromRoot("scripts/engines/package-lock.json")));
  for (const [name, version] of Object.entries(ENGINES)) {
    assertEquals(lock.packages[`node_modules/${name}`].version, version);
    assert(lock.packages[`node_modules/${name}`].integrity);
  }
});
