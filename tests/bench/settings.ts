/**
 * Cost of resolving 5,000 leaves with corp and user overrides, beside one structuredClone of the tree that
 * comes out, in the same run (at most 10 ×). Prints one JSON object.
 */
import { CorpFile } from "../../lib/config/corp/mod.ts";
import { corpLayer, parseDefinitions, resolve, userLayer } from "../../lib/config/settings/mod.ts";
import { parseToml } from "../../lib/base/toml/mod.ts";

const LEAVES = 5_000;
const ROUNDS = 30;
/** Every which leaf has an override. */
const USER_EVERY = 2;
const CORP_EVERY = 3;

const ids = Array.from({ length: LEAVES }, (_, i) => `g${i % 50}.s${i}`);

function definitionsText(): string {
  const groups = Array.from({ length: 50 }, (_, i) => `[settings.g${i}]\nname = "Group ${i}"\n`);
  const leaves = ids.map((id, i) =>
    i % 10 === 0
      ? `[settings.${id}]\nname = "Switch ${i}"\ntype = "bool"\ndefault = true\n`
      : `[settings.${id}]\nname = "Setting ${i}"\ndescription = "What it is for"\ntype = "number"\ndefault = ${i}\n` +
        `enabled_by = "${ids[i - i % 10]}"\nmeta = { min = 0, max = 100000, env_vars = ["V${i}"] }\n`
  );
  return [...groups, ...leaves].join("");
}

function overrides(every: number, extra: string): string {
  return ids.filter((_, i) => i % every === 0).map((id, n) =>
    `[settings."${id}"]\nvalue = ${Number(id.split(".s")[1]) % 10 === 0 ? n % 4 > 0 : n}\n${extra}\n`
  ).join("");
}

/** Median milliseconds of one call. */
function median(call: () => unknown): number {
  for (let i = 0; i < 5; i++) call();
  const times = Array.from({ length: ROUNDS }, () => {
    const start = performance.now();
    call();
    return performance.now() - start;
  });
  return times.sort((a, b) => a - b)[ROUNDS >> 1];
}

const definitions = parseDefinitions(parseToml(definitionsText(), "defaults.toml"));
const userText = overrides(USER_EVERY, 'modified = "2026-01-01T00:00:00Z"');
const corpDocument = parseToml(overrides(CORP_EVERY, "hidden = false"), "corp.toml");
const user = userLayer(parseToml(userText, "settings.toml"), definitions);
const corp = corpLayer(
  {
    status: "ok",
    config: { file: CorpFile.parse(corpDocument.value), document: corpDocument },
  },
  definitions,
);
const { tree, leaves } = resolve(definitions, user, corp);
if (leaves.length !== LEAVES) throw new Error(`${leaves.length} leaves`);

const resolveMs = median(() => resolve(definitions, user, corp));
const floorMs = median(() => structuredClone(tree));
const fromTextMs = median(() =>
  resolve(definitions, userLayer(parseToml(userText, "settings.toml"), definitions), corp)
);

console.log(JSON.stringify({
  bench: "settings",
  leaves: LEAVES,
  resolve_ms: resolveMs,
  structured_clone_ms: floorMs,
  ratio: resolveMs / floorMs,
  target_ratio: 10,
  /** reading the user's 2,500 overrides included: what a change by hand costs */
  from_text_ms: fromTextMs,
  from_text_ratio: fromTextMs / floorMs,
}));
