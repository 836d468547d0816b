import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { CorpFile } from "../../../../lib/config/corp/mod.ts";
import { nearestSetting } from "../../../../lib/config/settings/definition.ts";
import {
  corpLayer,
  EMPTY_LAYER,
  explain,
  loadDefinitions,
  parseDefinitions,
  resolve,
  userLayer,
  withoutSecrets,
} from "../../../../lib/config/settings/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";

const DEFINITIONS = await loadDefinitions({ get: () => undefined });
const defaultLine = (id: string) =>
  DEFINITIONS.document.positionOf(["settings", ...id.split("."), "default"]).line;

function explanation(id: string, userText: string, corpText?: string) {
  const user = userLayer(parseToml(userText, "settings.toml"), DEFINITIONS);
  const document = parseToml(corpText ?? "", "corp.toml");
  const corp = corpText === undefined ? EMPTY_LAYER : corpLayer(
    { status: "ok", config: { file: CorpFile.parse(document.value), document } },
    DEFINITIONS,
  );
  return explain(id, { definitions: DEFINITIONS, resolved: resolve(DEFINITIONS, user, corp), user, corp });
}

Deno.test("an explanation has every layer with file and line, the winner and the lock", () => {
  const user = '# c\n[settings."ledger.on_full"]\nmodified = "m"\nvalue = "pause"\n';
  const corp = '\n\n[settings]\n"ledger.on_full" = { hidden = true, value = "block", reason = "audit" }\n';
  assertEquals(explanation("ledger.on_full", user, corp), {
    id: "ledger.on_full",
    name: "When it cannot be written",
    description:
      "pause: the VM pauses until the record can be written again; block: it keeps running, and everything that needs a record is refused",
    form: "pause or block",
    effective_value: "block",
    source: "corp",
    corp_locked: true,
    lock: "corp.toml:4",
    lock_reason: "audit",
    enabled: true,
    hidden: true,
    layers: [
      { layer: "corp", value: "block", hidden: true, file: "corp.toml", line: 4, wins: true },
      { layer: "user", value: "pause", file: "settings.toml", line: 4, wins: false },
      {
        layer: "default",
        value: "pause",
        enabled: true,
        file: "defaults.toml",
        line: defaultLine("ledger.on_full"),
        wins: false,
      },
    ],
    enabled_by: [],
  });
});

Deno.test("the enabled_by chain shows the disabling toggle and its position", () => {
  const { enabled, enabled_by, layers } = explanation(
    "telemetry.endpoint",
    'settings."telemetry.enabled".value = true\n',
    '[settings."telemetry.enabled"]\nvalue = false\n',
  );
  assertEquals(enabled, false);
  assertEquals(enabled_by, [
    { id: "telemetry.enabled", value: false, enabled: true, source: "corp", file: "corp.toml", line: 2 },
  ]);
  assertEquals(layers.map(({ wins }) => wins), [false, false, true]);
});

Deno.test("secrets are masked in every layer", () => {
  const text = '[settings.key]\nname = "Key"\ntype = "password"\ndefault = "d3fault"\n';
  const definitions = parseDefinitions(parseToml(text, "defaults.toml"));
  const user = userLayer(parseToml('[settings.key]\nvalue = "hunter2"\n', "settings.toml"), definitions);
  const resolved = resolve(definitions, user, EMPTY_LAYER);
  const sources = { definitions, resolved, user, corp: EMPTY_LAYER };
  for (const shown of [explain("key", sources), withoutSecrets(resolved.tree)]) {
    const text = JSON.stringify(shown);
    assertEquals([/hunter2|d3fault/.test(text), text.includes("••••••")], [false, true]);
  }
});

Deno.test("an unknown id names the nearest one", () => {
  const error = assertThrows(() => explanation("ledger.on_ful", ""), SbxError);
  assertEquals([error.code, error.hint], ["settings.not_found", 'did you mean "ledger.on_full"?']);
});

Deno.test("an unknown setting is compared by its whole id, else by its last word", () => {
  const near = (id: string) => nearestSetting(id, DEFINITIONS);
  assertEquals(
    ["ledger.on_ful", "ram_gb", "vm.ram_gb", "vm.cpu_cont", "theme", "network.mcp_login"].map(near),
    [
      "ledger.on_full",
      "vm.resources.ram_gb",
      "vm.resources.ram_gb",
      "vm.resources.cpu_count",
      "appearance.theme",
      "network.mcp_logins",
    ],
  );
  // Several settings have the word: none is nearer.
  assertEquals([near("enabled"), near("zzzzzz")], [undefined, undefined]);
});
