import { nearest } from "../base/text/mod.ts";
import type { CorpState } from "../corp/mod.ts";
import { isTable, type TomlDocument } from "../toml/mod.ts";
import { type Definitions, nearestSetting } from "./definition.ts";
import type { ConfigIssue, SettingValue } from "./node/mod.ts";
import { retiredMessage } from "./retired.ts";
import { checkValue } from "./value.ts";

/** Entry of one layer for one setting. */
export interface Entry {
  /** only if valid */
  value?: SettingValue;
  hidden?: boolean;
  enabled?: boolean;
  modified?: string;
  /** true if corp sets a value, even an invalid one */
  locked?: boolean;
}

/** Overrides by the user or by corp, checked once when their file is read. */
export interface Layer {
  entries: ReadonlyMap<string, Entry>;
  /** corp only: locks every setting, since corp.toml exists but has no known good version */
  locksAll?: boolean;
  document?: TomlDocument;
  issues: ConfigIssue[];
}

export const EMPTY_LAYER: Layer = { entries: new Map(), issues: [] };

/** Maximum issues per file. */
const ISSUES_MAX = 100;
/** Top-level keys that belong to profiles or corp (docs/contracts.md §3). */
export const FOREIGN_KEYS: ReadonlySet<string> = new Set([
  "rule_files",
  "profiles",
  "corp",
  "mcp",
  "plugins",
  "network",
  "ai",
]);

/** Reads the overrides of a settings.toml; problems become issues, and the other entries stay valid. */
export function userLayer(document: TomlDocument, definitions: Definitions): Layer {
  const issues = new Issues();
  const at = (...path: string[]) => document.placeOf(path);
  for (const key of Object.keys(document.value)) {
    if (key === "settings") continue;
    const message = FOREIGN_KEYS.has(key)
      ? `${at(key)}: [${key}] belongs to profiles or corp and is not allowed here`
      : `${at(key)}: unknown key; only [settings."<id>"] is allowed here`;
    issues.add({ id: key, severity: "error", message });
  }
  const { settings = {} } = document.value;
  if (!isTable(settings)) {
    issues.add({ id: "settings", severity: "error", message: `${at("settings")}: must be a table` });
    return { entries: new Map(), document, issues: issues.list };
  }
  const entries = new Map<string, Entry>();
  for (const [id, table] of Object.entries(settings)) {
    const report = (severity: ConfigIssue["severity"], message: string, key?: string) =>
      issues.add({ id, severity, message: `${at("settings", id, ...(key ? [key] : []))}: ${message}` });
    if (!isTable(table)) report("error", `must be a table: [settings.${JSON.stringify(id)}]`);
    else entries.set(id, userEntry(table, report));
  }
  return { entries: checkEntries(entries, document, definitions, issues), document, issues: issues.list };
}

function userEntry(
  table: Record<string, unknown>,
  report: (severity: "error" | "warning", message: string, key?: string) => void,
): Entry {
  const entry: Entry = {};
  for (const [key, value] of Object.entries(table)) {
    if (key === "value") entry.value = value as SettingValue;
    else if ((key === "hidden" || key === "enabled") && typeof value === "boolean") entry[key] = value;
    else if (key === "hidden" || key === "enabled") report("error", `${key} must be true or false`, key);
    else if (key === "modified" && (typeof value === "string" || value instanceof Date)) {
      entry.modified = typeof value === "string" ? value : value.toISOString();
    } else if (key === "modified") report("warning", "modified must be a time", key);
    else {
      const near = nearest(key, ["value", "modified", "hidden", "enabled"]);
      report("error", `unknown key ${JSON.stringify(key)}${near ? `; did you mean "${near}"?` : ""}`, key);
    }
  }
  return entry;
}

/** Reads corp's overrides, whatever the state of its file. */
export function corpLayer(state: CorpState, definitions: Definitions): Layer {
  if (state.status === "absent") return EMPTY_LAYER;
  const issues = new Issues();
  if (state.status === "closed") {
    const message = `${state.error.message}\nNo good version is known, so every setting is locked.`;
    issues.add({ id: "corp.toml", severity: "error", message });
    return { entries: new Map(), locksAll: true, issues: issues.list };
  }
  if (state.status === "last_good") {
    const message = `${state.error.message}\nThe last good version stays in force.`;
    issues.add({ id: "corp.toml", severity: "error", message });
  }
  const { file, document } = state.config;
  const entries = new Map<string, Entry>();
  for (const [id, { value, hidden, enabled }] of Object.entries(file.settings)) {
    entries.set(id, { value: value as SettingValue, hidden, enabled, locked: value !== undefined });
  }
  return { entries: checkEntries(entries, document, definitions, issues), document, issues: issues.list };
}

/** Checks each value against its setting and removes invalid ones, so that resolution need not check again. */
function checkEntries(
  entries: Map<string, Entry>,
  document: TomlDocument,
  definitions: Definitions,
  issues: Issues,
): Map<string, Entry> {
  for (const [id, entry] of entries) {
    const leaf = definitions.byId.get(id);
    const place = (...key: string[]) => document.placeOf(["settings", id, ...key]);
    if (!leaf) {
      entries.delete(id);
      if (issues.isFull) continue;
      const near = nearestSetting(id, definitions);
      const problem = retiredMessage(id) ?? `unknown setting${near ? `; did you mean "${near}"?` : ""}`;
      const message = `${place()}: ${problem}`;
      issues.add({ id, severity: "warning", message });
    } else if (entry.value !== undefined) {
      const { value, problems } = checkValue(leaf, entry.value);
      entry.value = value;
      for (const problem of problems) {
        const outcome = problem.severity === "error" ? "; the value is ignored" : "";
        issues.add({ id, ...problem, message: `${place("value")}: ${problem.message}${outcome}` });
      }
    }
  }
  return entries;
}

/** Issues of one file, up to the maximum. */
class Issues {
  readonly list: ConfigIssue[] = [];

  get isFull(): boolean {
    return this.list.length >= ISSUES_MAX;
  }

  add(issue: ConfigIssue) {
    if (!this.isFull) this.list.push(issue);
  }
}
