/** The examples of docs/guides/settings.md are valid files. */
import { assert, assertEquals } from "@std/assert";
import { leavesOf, parseSetting } from "../../../../cmd/sbx/admin/settings.ts";
import { CorpFile } from "../../../../lib/config/corp/mod.ts";
import { parseResolvers } from "../../../../lib/network/dns/mod.ts";
import { Overrides } from "../../../../lib/network/dns/override.ts";
import { parseProfile } from "../../../../lib/config/profile/mod.ts";
import {
  checkValue,
  corpLayer,
  EMPTY_LAYER,
  loadDefinitions,
  resolve,
  userLayer,
} from "../../../../lib/config/settings/mod.ts";
import { checkToml, parseToml, type TomlDocument } from "../../../../lib/base/toml/mod.ts";
import { exampleOf, EXAMPLES, settingsPage } from "../../../../scripts/docs_settings.ts";
import { fromRoot } from "../../../helper/repo.ts";

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

Deno.test("the TOML examples of docs/guides/settings.md", async () => {
  const text = await Deno.readTextFile(fromRoot("docs/guides/settings.md"));
  const examples = [...text.matchAll(/^```toml\n# (\S+)\n([^`]*)```$/gm)];
  assertEquals(examples.map(([, name]) => name), Object.keys(PROBLEMS));
  for (const [, name, toml] of examples) assertEquals(PROBLEMS[name](parseToml(toml, name)), [], name);
});

Deno.test("docs/reference/settings.md has a valid example value for every setting, and no hidden one", async () => {
  const { tree } = resolve(definitions, EMPTY_LAYER, EMPTY_LAYER);
  const leaves = leavesOf(tree);
  const page = await settingsPage();
  for (const definition of definitions.leaves) {
    assertEquals(page.includes(`| \`${definition.id}\` `), !definition.metadata.hidden, definition.id);
  }
  for (const leaf of leaves) {
    const definition = definitions.byId.get(leaf.id)!;
    const example = exampleOf(definition);
    assert(example !== "", definition.id);
    const value = example.startsWith("@") ? leaf.default_value : await parseSetting(leaf, example);
    assertEquals(checkValue({ type: definition.type, metadata: definition.metadata }, value).problems, []);
  }
  for (const id of Object.keys(EXAMPLES)) assert(definitions.byId.has(id), id);
  const list = (id: string) => EXAMPLES[id].split(",");
  assertEquals(parseResolvers(list("network.dns_resolvers")).length, 2);
  const overrides = Overrides.parse(list("network.upstream_overrides"));
  assertEquals(overrides.target("web.example.com", 80)?.port, 8080);
});
