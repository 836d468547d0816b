import type { ChainLink, LayerExplanation, SettingExplanation } from "../../../lib/config/settings/mod.ts";
import { pairs, table } from "../output.ts";

/** Formats the explanation of a setting. */
export function formatExplanation(explanation: SettingExplanation): string {
  const { id, description, form, effective_value, source, lock, enabled, hidden, layers, enabled_by } =
    explanation;
  const head = pairs([
    ["setting", id],
    ["description", description],
    ["form", form],
    ["value", text(effective_value)],
    ["from", source],
    ["locked", lock && `by corp, ${lock}`],
    ["enabled", enabled ? "yes" : "no"],
    ["hidden", hidden ? "yes" : undefined],
  ]);
  const parts = [head, table(["LAYER", "VALUE", "", "WHERE"], layers.map(layerRow))];
  if (enabled_by.length > 0) parts.push(table(["ENABLED BY", "VALUE", "", "WHERE"], enabled_by.map(linkRow)));
  return parts.join("\n\n");
}

function layerRow({ layer, value, enabled, hidden, wins, file, line }: LayerExplanation): string[] {
  const marks = [
    wins ? "wins" : "",
    enabled === false ? "disables" : "",
    enabled && layer !== "default" ? "enables" : "",
    hidden ? "hides" : "",
  ];
  return [
    layer,
    value === undefined ? "-" : text(value),
    marks.filter(Boolean).join(", "),
    place(file, line),
  ];
}

function linkRow({ id, value, enabled, file, line }: ChainLink): string[] {
  if (value === undefined) return [id, "-", "unknown setting", ""];
  return [id, text(value), enabled ? "" : "disabled", place(file, line)];
}

function place(file?: string, line?: number): string {
  return file ? `${file}:${line}` : "";
}

function text(value: unknown): string {
  return JSON.stringify(value);
}
