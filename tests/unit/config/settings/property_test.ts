import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { CorpStore } from "../../../../lib/config/corp/mod.ts";
import {
  type Entry,
  type Layer,
  loadDefinitions,
  parseDefinitions,
  resolve,
  SettingsStore,
  type SettingValue,
} from "../../../../lib/config/settings/mod.ts";
import { encodeValue, parseToml } from "../../../../lib/base/toml/mod.ts";
import { Random } from "../../../helper/random.ts";

const SEED = 0xc0ffee;

const random = new Random(SEED);
const next = () => random.next() / 2 ** 32;
const below = (limit: number) => random.below(limit);
const maybe = <T>(make: () => T): T | undefined => next() < 0.4 ? make() : undefined;

/** Random toggles and numbers, each enabled by a random setting (cycles included) or by none. */
function randomDefinitions(count: number) {
  const text = Array.from({ length: count }, (_, i) => {
    const isToggle = i % 2 === 0;
    const parent = maybe(() => `enabled_by = "s${below(count + 1)}"\n`) ?? "";
    return `[settings.s${i}]\nname = "S"\ntype = "${isToggle ? "bool" : "number"}"\ndefault = ${
      isToggle ? next() < 0.5 : i
    }\n${parent}${maybe(() => "enabled = false\n") ?? ""}`;
  }).join("");
  return parseDefinitions(parseToml(text, "defaults.toml"));
}

function randomLayer(count: number, isCorp: boolean): Layer {
  const entries = new Map<string, Entry>();
  for (let i = 0; i < count; i++) {
    if (next() < 0.5) continue;
    const value = maybe((): SettingValue => i % 2 === 0 ? next() < 0.5 : below(1000));
    entries.set(`s${i}`, {
      value,
      enabled: maybe(() => next() < 0.5),
      hidden: maybe(() => next() < 0.5),
      ...(isCorp && { locked: value !== undefined }),
    });
  }
  return { entries, issues: [] };
}

Deno.test("resolution: corp always wins, every corp value is a lock, and the rules hold for every setting", () => {
  for (let round = 0; round < 150; round++) {
    const count = 1 + below(40);
    const definitions = randomDefinitions(count);
    const [user, corp] = [randomLayer(count, false), randomLayer(count, true)];
    const { leaves, byId, tree } = resolve(definitions, user, corp);
    assertEquals(leaves.map(({ id }) => id), definitions.leaves.map(({ id }) => id));
    const treeText = JSON.stringify(tree);
    for (const leaf of leaves) {
      const [userEntry, corpEntry] = [user.entries.get(leaf.id), corp.entries.get(leaf.id)];
      const defined = definitions.byId.get(leaf.id)!;
      assertEquals(leaf.corp_locked, corpEntry?.value !== undefined);
      assertEquals(leaf.effective_value, corpEntry?.value ?? userEntry?.value ?? defined.default);
      assertEquals(leaf.source === "corp", leaf.corp_locked);
      const isHidden = corpEntry?.hidden === true || userEntry?.hidden === true;
      assertEquals(treeText.includes(`"id":"${leaf.id}"`), !isHidden);
      const userEnabled = leaf.corp_locked ? undefined : userEntry?.enabled;
      const explicit = corpEntry?.enabled ?? userEnabled ?? defined.enabled;
      if (!explicit) assertEquals(leaf.enabled, false);
      if (leaf.enabled_by === null) assertEquals(leaf.enabled, explicit);
      else if (leaf.enabled) {
        const parent = byId.get(leaf.enabled_by)!;
        assert(parent.enabled && parent.effective_value === true);
      }
    }
  }
});

Deno.test("resolution: no user layer changes a locked value", () => {
  for (let round = 0; round < 100; round++) {
    const definitions = randomDefinitions(20);
    const corp = randomLayer(20, true);
    const locked = (user: Layer) =>
      resolve(definitions, user, corp).leaves.filter(({ corp_locked }) => corp_locked)
        .map(({ id, effective_value }) => [id, effective_value]);
    assertEquals(locked(randomLayer(20, false)), locked(randomLayer(20, false)));
  }
});

Deno.test("edits: a rejected edit or a failed write changes nothing", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const corpFile = join(dir, "corp.toml");
    const path = join(dir, "settings.toml");
    await Deno.writeTextFile(corpFile, '[settings."appearance.theme"]\nvalue = "dark"\n');
    let fails = false;
    const store = await SettingsStore.open({
      home: { dir },
      definitions: await loadDefinitions({ get: () => undefined }),
      corp: new CorpStore({ dir }, { managed: corpFile }),
      write: async (target, text) => {
        if (fails) throw new Error("injected");
        await Deno.writeTextFile(target, text);
      },
    });
    const pool: [string, unknown[]][] = [
      ["app.auto_update", [true, false, "yes", null]],
      ["appearance.font_size", [8, 20, 33, 1.5]],
      ["vm.environment.shell.lang", ["C", "a\0", "x\ny"]],
      ["appearance.theme", ["light"]],
      ["nowhere", [1]],
    ];
    const outcomes = { done: 0, refused: 0 };
    for (let round = 0; round < 120; round++) {
      const changes = Object.fromEntries(
        pool.filter(() => next() < 0.3).map(([id, values]) => [id, values[below(values.length)]]),
      );
      const before = [await Deno.readTextFile(path).catch(() => ""), JSON.stringify(store.resolved.leaves)];
      fails = next() < 0.3;
      try {
        await store.edit(changes);
      } catch (error) {
        assert(error instanceof SbxError);
        outcomes.refused++;
        assertEquals(
          [await Deno.readTextFile(path).catch(() => ""), JSON.stringify(store.resolved.leaves)],
          before,
        );
        continue;
      }
      outcomes.done++;
      for (const [id, value] of Object.entries(changes)) {
        const leaf = store.resolved.byId.get(id)!;
        assertEquals(
          encodeValue(leaf.effective_value as string),
          encodeValue((value ?? leaf.default_value) as string),
        );
      }
    }
    assert(outcomes.done > 10 && outcomes.refused > 10, JSON.stringify(outcomes));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
