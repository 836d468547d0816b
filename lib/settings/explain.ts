import { SbxError } from "../base/error/mod.ts";
import { nearest } from "../event/mod.ts";
import type { TomlDocument } from "../toml/mod.ts";
import { definitionPath, type Definitions } from "./definition.ts";
import { formOf } from "./form.ts";
import type { Layer } from "./layer.ts";
import { isSecret, type LeafNode, type SettingSource, type SettingValue } from "./node.ts";
import type { Resolved } from "./resolve.ts";

/** Where something is written. */
export interface Place {
  file: string;
  line: number;
}

/** What one layer says. */
export interface LayerExplanation extends Partial<Place> {
  layer: SettingSource;
  /** absent when the layer says nothing, or nothing valid */
  value?: SettingValue;
  enabled?: boolean;
  hidden?: boolean;
  /** its value is the one in force */
  wins: boolean;
}

/** One toggle of an `enabled_by` chain. */
export interface ChainLink extends Partial<Place> {
  id: string;
  /** absent when there is no such setting */
  value?: SettingValue;
  enabled: boolean;
  source?: SettingSource;
}

/** Answer of `GET /settings/explain/{id}`: why a setting is as it is. Secret values are masked. */
export interface SettingExplanation {
  id: string;
  name: string;
  description: string;
  /** what its values are */
  form: string;
  effective_value: SettingValue;
  source: SettingSource;
  corp_locked: boolean;
  /** who locks it, for a person */
  lock?: string;
  enabled: boolean;
  hidden: boolean;
  /** corp, user, default */
  layers: LayerExplanation[];
  /** from the setting's own parent upwards */
  enabled_by: ChainLink[];
}

/** What an explanation looks at. */
export interface ExplainSources {
  definitions: Definitions;
  resolved: Resolved;
  user: Layer;
  corp: Layer;
}

const MASK = "••••••";

/** @throws {SbxError} `settings.not_found` */
export function explain(id: string, sources: ExplainSources): SettingExplanation {
  const { definitions, resolved, corp } = sources;
  const leaf = resolved.byId.get(id);
  if (!leaf) {
    const near = nearest(id, definitions.byId.keys());
    throw new SbxError("settings.not_found", `no setting has the id ${JSON.stringify(id)}`, {
      hint: near ? `did you mean "${near}"?` : "sbx settings list shows those that exist",
    });
  }
  const layers = (["corp", "user", "default"] as const).map((layer) => explainLayer(layer, leaf, sources));
  const corpPlace = layers[0];
  return {
    id,
    name: leaf.name,
    description: leaf.description,
    form: formOf(leaf.setting_type, leaf.metadata),
    effective_value: shown(leaf, leaf.effective_value),
    source: leaf.source,
    corp_locked: leaf.corp_locked,
    ...(leaf.corp_locked && {
      lock: corp.locksAll
        ? "corp.toml is broken, and no good version of it is known"
        : `${corpPlace.file}:${corpPlace.line}`,
    }),
    enabled: leaf.enabled,
    hidden: leaf.metadata.hidden,
    layers,
    enabled_by: chainOf(leaf, sources),
  };
}

function explainLayer(layer: SettingSource, leaf: LeafNode, sources: ExplainSources): LayerExplanation {
  const place = placeOf(layer, leaf.id, sources);
  const wins = leaf.source === layer;
  if (layer === "default") {
    const { enabled } = sources.definitions.byId.get(leaf.id)!;
    return { layer, value: shown(leaf, leaf.default_value), enabled, ...place, wins };
  }
  const entry = sources[layer].entries.get(leaf.id);
  return {
    layer,
    ...(entry?.value !== undefined && { value: shown(leaf, entry.value) }),
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
      value: shown(parent, effective_value),
      enabled,
      source,
      ...placeOf(source, id, sources),
    });
    id = parent.enabled_by;
  }
  return chain;
}

/** Where a layer speaks of a setting; undefined if it does not. */
function placeOf(layer: SettingSource, id: string, sources: ExplainSources): Place | undefined {
  if (layer === "default") return place(sources.definitions.document, [...definitionPath({ id }), "default"]);
  const { document, entries } = sources[layer];
  return document && entries.has(id) ? place(document, ["settings", id, "value"]) : undefined;
}

function place(document: TomlDocument, path: string[]): Place {
  return { file: document.path, line: document.positionOf(path).line };
}

function shown({ setting_type }: LeafNode, value: SettingValue): SettingValue {
  return isSecret(setting_type) && value !== "" ? MASK : value;
}
