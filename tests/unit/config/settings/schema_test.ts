import { assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { CorpStore } from "../../../../lib/config/corp/mod.ts";
import { BUILTIN_PROFILES } from "../../../../lib/config/profile/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../../lib/config/settings/mod.ts";
import { parseToml, readToml } from "../../../../lib/base/toml/mod.ts";
import { SCHEMAS, schemaText } from "../../../../scripts/schemas.ts";
import { fromRoot } from "../../../helper/repo.ts";

const readJson = async (path: string) => JSON.parse(await Deno.readTextFile(fromRoot(path)));

/** Validation errors of a generated schema for a value; empty if valid. */
async function schemaErrors(schema: string, value: unknown): Promise<string[]> {
  const validate = new Ajv2020({ allErrors: true, strict: false }).compile(
    await readJson(`schemas/${schema}.schema.json`),
  );
  return validate(value)
    ? []
    : validate.errors!.map(({ instancePath, message }) => `${instancePath} ${message}`);
}

for (const generated of SCHEMAS) {
  Deno.test(`schemas/${generated.file} is current (deno run -A scripts/schemas.ts)`, async () => {
    assertEquals(await Deno.readTextFile(fromRoot(`schemas/${generated.file}`)), await schemaText(generated));
  });
}

Deno.test("the fixtures conform to their schemas", async () => {
  for (
    const [schema, path] of [
      ["settings", "fixtures/settings/full.toml"],
      ["corp", "fixtures/corp/locked.toml"],
      ["profile", "fixtures/profiles/minimal/profile.toml"],
      ["profile", "fixtures/profiles/research/profile.toml"],
    ]
  ) assertEquals(await schemaErrors(schema, (await readToml(fromRoot(path))).value), [], path);
  for (const [id, text] of BUILTIN_PROFILES) {
    assertEquals(await schemaErrors("profile", parseToml(text, id).value), []);
  }
});

Deno.test("the schemas reject unknown keys and invalid values", async () => {
  const settings = (entry: unknown) =>
    schemaErrors("settings", { settings: { "appearance.font_size": entry } });
  assertEquals(await settings({ value: 12 }), []);
  for (const wrong of [{ value: 99 }, { value: "12" }, { valu: 12 }]) {
    assertEquals((await settings(wrong)).length > 0, true, JSON.stringify(wrong));
  }
  assertEquals((await schemaErrors("settings", { mcp: {} })).length > 0, true);
  assertEquals((await schemaErrors("corp", { setings: {} })).length > 0, true);
  assertEquals((await schemaErrors("profile", { id: "Bad Id" })).length > 0, true);
});

Deno.test("the golden GET /settings/info conforms to its schema and equals the resolved fixtures", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.copyFile(fromRoot("fixtures/settings/full.toml"), `${dir}/settings.toml`);
    const store = await SettingsStore.open({
      home: { dir },
      definitions: await loadDefinitions({ get: () => undefined }),
      corp: new CorpStore({ dir }, { managed: fromRoot("fixtures/corp/locked.toml") }),
    });
    const answer = JSON.parse(JSON.stringify(store.info()));
    assertEquals(await schemaErrors("settings-info", answer), []);
    assertEquals(answer, await readJson("fixtures/settings/info.json"));
    const [leaf] = answer.tree[0].children;
    assertEquals(
      (await schemaErrors("settings-info", { tree: [{ ...leaf, extra: 1 }], issues: [] })).length > 0,
      true,
    );
    assertEquals(
      (await schemaErrors("settings-info", { tree: [{ ...leaf, kind: "leef" }], issues: [] })).length > 0,
      true,
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
