/** The user's pages name every guard and every built-in rule that refuses or asks, and no other. */
import { assert, assertEquals } from "@std/assert";
import { DEFAULT_RULES } from "../../../lib/policy/engine/rule.ts";
import { fromRoot } from "../../helper/repo.ts";

const pages = (await Promise.all(
  ["guides/policy", "concepts/network"].map((name) => Deno.readTextFile(fromRoot(`docs/${name}.md`))),
)).join("\n");

/** Ids of guards that code below `folder` names. */
async function guardsIn(folder: string, found = new Set<string>()): Promise<Set<string>> {
  for await (const { name, isDirectory } of Deno.readDir(fromRoot(folder))) {
    const path = `${folder}/${name}`;
    if (isDirectory) await guardsIn(path, found);
    else if (name.endsWith(".ts")) {
      const text = await Deno.readTextFile(fromRoot(path));
      for (const [, id] of text.matchAll(/"(guard-[a-z-]*[a-z])"/g)) found.add(id);
    }
  }
  return found;
}

Deno.test("policy.md and network.md name the guards of the code", async () => {
  const guards = await guardsIn("lib");
  assert(guards.size > 10);
  const named = new Set([...pages.matchAll(/`(guard-[a-z-]*[a-z])`/g)].map(([, id]) => id));
  assertEquals([...named].sort(), [...guards].sort());
});

Deno.test("policy.md and network.md name the built-in rules that block or ask", () => {
  const rules = DEFAULT_RULES.filter(({ action }) => action !== "allow").map(({ id }) => id);
  assert(rules.length > 4);
  assertEquals(rules.filter((id) => !pages.includes(`\`${id}\``)), []);
});
