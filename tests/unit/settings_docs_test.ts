/** The examples of docs/settings.md are files that sbx takes as they are. */
import { assertEquals } from "@std/assert";
import { CorpFile } from "../../lib/corp/mod.ts";
import { parseProfile } from "../../lib/profile/mod.ts";
import { corpLayer, loadDefinitions, userLayer } from "../../lib/settings/mod.ts";
import { checkToml, parseToml, type TomlDocument } from "../../lib/toml/mod.ts";
import { fromRoot } from "../helper/repo.ts";

const definitions = await loadDefinitions({ get: () => undefined });

const PROBLEMS: Record<string, (document: TomlDocument) => unknown[]> = {
  "settings.toml": (document) => userLayer(document, definitions).issues,
  "corp.toml": (document) => {
    const file = checkToml(document, CorpFile, "corp.invalid");
    return corpLayer({ status: "ok", config: { file, document } }, definitions).issues;
  },
  "profile.toml": (document) => {
    parseProfile(document, { id: "data", source: "user" });
    return [];
  },
};

Deno.test("the TOML examples of docs/settings.md", async () => {
  const text = await Deno.readTextFile(fromRoot("docs/settings.md"));
  const examples = [...text.matchAll(/^```toml\n# (\S+)\n([^`]*)```$/gm)];
  assertEquals(examples.map(([, name]) => name), Object.keys(PROBLEMS));
  for (const [, name, toml] of examples) assertEquals(PROBLEMS[name](parseToml(toml, name)), [], name);
});
