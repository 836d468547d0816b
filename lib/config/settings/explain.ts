/** Explains the value of a setting: the layers that set it, and the settings that enable it. */
import { SbxError } from "../../base/error/mod.ts";
import { suggestion } from "../../base/text/mod.ts";
import type { TomlDocument } from "../../base/toml/mod.ts";
import { definitionPath, type Definitions, nearestSetting } from "./definition.ts";
import type { Layer } from "./layer.ts";
import {
  type LeafNode,
  maskSecret,
  type Metadata,
  type SettingSource,
  type SettingType,
  type SettingValue,
} from "./node/mod.ts";
import type { Resolved } from "./resolve.ts";

/** Position of an entry in a file. */
export interface Place {
  file: string;
  line: number;
}

/** Entry of one layer. */
export interface LayerExplanation extends Partial<Place> {
  layer: SettingSource;
  /** absent for a layer without a valid value */
  value?: SettingValue;
  enabled?: boolean;
  hidden?: boolean;
  /** true for the layer whose value is active */
  wins: boolean;
}

/** One toggle of an `enabled_by` chain. */
export interface ChainLink extends Partial<Place> {
  id: string;
  /** absent for an unknown setting */
  value?: SettingValue;
  enabled: boolean;
  source?: SettingSource;
}

/** Answer of `GET /settings/explain/{id}`: the origin of a setting's state. Secret values are masked. */
export interface SettingExplanation {
  id: string;
  name: string;
  description: string;
  /** form of its values */
  form: string;
  effective_value: SettingValue;
  source: SettingSource;
  corp_locked: boolean;
  /** place of the corp lock, for people */
  lock?: string;
  /** of the corp lock, in corp's words */
  lock_reason?: string;
  enabled: boolean;
  hidden: boolean;
  /** corp, user, default */
  layers: LayerExplanation[];
  /** chain of toggles, from the setting's parent upwards */
  enabled_by: ChainLink[];
}

/** Sources of an explanation. */
export interface ExplainSources {
  definitions: Definitions;
  resolved: Resolved;
  user: Layer;
  corp: Layer;
}

/** Explains the state of one setting. @throws {SbxError} `settings.not_found` */
export function explain(id: string, sources: ExplainSources): SettingExplanation {
  const { definitions, resolved, corp } = sources;
  const leaf = resolved.byId.get(id);
  if (!leaf) {
    const near = nearestSetting(id, definitions);
    throw new SbxError("settings.not_found", `unknown setting ${JSON.stringify(id)}`, {
      hint: near === undefined ? "sbx settings list shows every setting" : suggestion(near),
    });
  }
  const layers = (["corp", "user", "default"] as const).map((layer) => explainLayer(layer, leaf, sources));
  const corpPlace = layers[0];
  const reason = corp.entries.get(id)?.reason;
  return {
    id,
    name: leaf.name,
    description: leaf.description,
    form: formOf(leaf.setting_type, leaf.metadata),
    effective_value: maskSecret(leaf, leaf.effective_value),
    source: leaf.source,
    corp_locked: leaf.corp_locked,
    ...(leaf.corp_locked && {
      lock: corp.locksAll
        ? "corp.toml is broken and has no known good version"
        : `${corpPlace.file}:${corpPlace.line}`,
      ...(reason !== undefined && { lock_reason: reason }),
    }),
    enabled: leaf.enabled,
    hidden: leaf.metadata.hidden,
    layers,
    enabled_by: chainOf(leaf, sources),
  };
}

function explainLayer(layer: SettingSource, leaf: LeafNode, sources: ExplainSources): LayerExplanation {
  const place = findPlace(layer, leaf.id, sources);
  const wins = leaf.source === layer;
  if (layer === "default") {
    const { enabled } = sources.definitions.byId.get(leaf.id)!;
    return { layer, value: maskSecret(leaf, leaf.default_value), enabled, ...place, wins };
  }
  const entry = sources[layer].entries.get(leaf.id);
  return {
    layer,
    ...(entry?.value !== undefined && { value: maskSecret(leaf, entry.value) }),
    ...(entry?.enabled !== undefined && { enabled: entry.enabled }),
    ...(entry?.hidden !== undefined && { hidden: entry.hidden }),
    ...place,
    wins,
  };
}

function chainOf(leaf: LeafNode, sources: ExplainSources): ChainLink[] {
  const chain: ChainLink[] = [];
  const seen = new Set([leaf.id]);
  for (let id = leaf.enabled_by; id !== null && !seen.has(id);) {
    seen.add(id);
    const parent = sources.resolved.byId.get(id);
    if (!parent) {
      chain.push({ id, enabled: false });
      break;
    }
    const { effective_value, enabled, source } = parent;
    chain.push({
      id,
      value: maskSecret(parent, effective_value),
      enabled,
      source,
      ...findPlace(source, id, sources),
    });
    id = parent.enabled_by;
  }
  return chain;
}

/** Position of a layer's entry for a setting; undefined without one. */
function findPlace(layer: SettingSource, id: string, sources: ExplainSources): Place | undefined {
  if (layer === "default") {
    return placeIn(sources.definitions.document, [...definitionPath({ id }), "default"]);
  }
  const { document, entries } = sources[layer];
  return document && entries.has(id) ? placeIn(document, ["settings", id, "value"]) : undefined;
}

function placeIn(document: TomlDocument, path: string[]): Place {
  return { file: document.path, line: document.positionOf(path).line };
}

/** Form of each type's values, as accepted by `sbx settings set`. */
const FORMS: Record<SettingType, string> = {
  text: "text",
  number: "an integer",
  bool: "true or false",
  password: "text, never shown again",
  apikey: "text, never shown again",
  file: "@FILE, or JSON {path, content}",
  string_list: "comma-separated text values, or a JSON list",
  int_list: "comma-separated integers",
  float_list: "comma-separated numbers",
};

/** Describes the form of a setting's values: `an integer from 1 to 8`. */
export function formOf(type: SettingType, { choices, min, max, validator }: Metadata): string {
  if (choices.length) return choices.join(", ").replace(/, ([^,]*)$/, " or $1");
  const form = validator === null ? FORMS[type] : {
    email: "an e-mail address",
    url: "a URL",
    ssh_public_key: "an SSH public key",
    credential_ref: "a ref of sbx credentials list",
  }[validator];
  if (min !== null && max !== null) return `${form} from ${min} to ${max}`;
  if (min !== null) return `${form}, at least ${min}`;
  return max === null ? form : `${form}, at most ${max}`;
}
