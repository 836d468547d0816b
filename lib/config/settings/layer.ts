/** Reads overrides of settings from settings.toml and corp.toml, and checks them once. */
import { isCompatible } from "../../base/semver/mod.ts";
import { nearest, suggestion } from "../../base/text/mod.ts";
import { isTable, type TomlDocument } from "../../base/toml/mod.ts";
import { type Definitions, nearestSetting } from "./definition.ts";
import type { ConfigIssue, SettingValue } from "./node/mod.ts";
import { checkValue } from "./value.ts";

/** An override of one setting. */
export interface Entry {
  /** absent if invalid */
  value?: SettingValue;
  hidden?: boolean;
  enabled?: boolean;
  modified?: string;
  /** true if corp sets a value, even an invalid one */
  locked?: boolean;
  /** corp's reason, shown with the lock */
  reason?: string;
}

/** Settings of corp.toml as {@linkcode SettingsStore} gets them. */
export type CorpSettings =
  | { status: "absent" }
  | { status: "ok"; config: CorpSettingsFile }
  | { status: "last_good"; config: CorpSettingsFile; error: Error }
  | { status: "closed"; error: Error };

/** The part of a corp.toml that overrides settings. */
export interface CorpSettingsFile {
  file: {
    settings: Record<string, Pick<Entry, "hidden" | "enabled" | "reason"> & { value?: unknown }>;
    corp?: { require?: { sbx?: string } };
  };
  document: TomlDocument;
}

/** Source of {@linkcode CorpSettings}; lib/config/corp implements it. */
export interface CorpSource {
  /** files to watch */
  readonly paths: readonly string[];
  load(): Promise<CorpSettings>;
}

/** All overrides by the user, or all by corp. */
export interface Layer {
  entries: ReadonlyMap<string, Entry>;
  /** corp only: locks every setting, since corp.toml exists but has no known good version */
  locksAll?: boolean;
  document?: TomlDocument;
  issues: ConfigIssue[];
}

export const EMPTY_LAYER: Layer = { entries: new Map(), issues: [] };

/** Most issues of one file. */
const ISSUES_MAX = 100;
/** Top-level keys that belong to profiles or corp (docs/design/contracts/03-settings.md §3). */
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
  checkEntries(entries, { document, definitions, issues, layer: "user" });
  return { entries, document, issues: issues.list };
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
      report("error", `unknown key ${JSON.stringify(key)}${near ? `; ${suggestion(near)}` : ""}`, key);
    }
  }
  return entry;
}

/**
 * Reads corp's overrides, in any state of its file. lib/config/corp refuses files with invalid entries; if
 * one gets here regardless, every setting is locked.
 */
export function corpLayer(state: CorpSettings, definitions: Definitions): Layer {
  if (state.status === "absent") return EMPTY_LAYER;
  const issues = new Issues();
  if (state.status === "closed") {
    const message = `${state.error.message}\nNo good version is known, so every setting is locked.`;
    issues.add({ id: "corp.toml", severity: "error", message });
    return { entries: new Map(), locksAll: true, issues: issues.list };
  }
  if (state.status === "last_good") {
    const message = `${state.error.message}\nThe last good version stays active.`;
    issues.add({ id: "corp.toml", severity: "error", message });
  }
  const { document } = state.config;
  const { entries, issues: found } = checkCorpSettings(state.config, definitions);
  for (const issue of found) issues.add(issue);
  const isInvalid = found.some(({ severity }) => severity === "error");
  return { entries, ...(isInvalid && { locksAll: true }), document, issues: issues.list };
}

/** Checks the settings of a corp.toml. An issue of severity `error` makes the whole file invalid. */
export function checkCorpSettings(
  { file, document }: CorpSettingsFile,
  definitions: Definitions,
): Pick<Layer, "entries" | "issues"> {
  const issues = new Issues();
  const entries = new Map<string, Entry>();
  for (const [id, { value, hidden, enabled, reason }] of Object.entries(file.settings)) {
    entries.set(id, { value: value as SettingValue, hidden, enabled, reason, locked: value !== undefined });
  }
  // The file may have settings of a later sbx that it requires; this sbx boots no VM under it anyway.
  const isForLaterSbx = !isCompatible(file.corp?.require?.sbx?.replace(/^>=\s*/, ""));
  checkEntries(entries, { document, definitions, issues, layer: "corp", isForLaterSbx });
  return { entries, issues: issues.list };
}

interface CheckContext {
  document: TomlDocument;
  definitions: Definitions;
  issues: Issues;
  layer: "user" | "corp";
  /** unknown settings are warnings, since the file requires a later sbx */
  isForLaterSbx?: boolean;
}

/** Checks values against their settings and removes invalid ones, so that resolution need not check again. */
function checkEntries(
  entries: Map<string, Entry>,
  { document, definitions, issues, layer, isForLaterSbx = false }: CheckContext,
): void {
  for (const [id, entry] of entries) {
    const leaf = definitions.byId.get(id);
    const place = (...key: string[]) => document.placeOf(["settings", id, ...key]);
    if (!leaf) {
      entries.delete(id);
      if (issues.isFull && (layer === "user" || issues.hasError)) continue;
      const near = nearestSetting(id, definitions);
      const retired = retiredMessage(id);
      const problem = retired ?? `unknown setting${near ? `; ${suggestion(near)}` : ""}`;
      // A misspelt preference of a person affects nothing else; a misspelt lock of corp leaves a setting
      // open.
      const isError = layer === "corp" && retired === undefined && !isForLaterSbx;
      const severity = isError ? "error" : "warning";
      issues.add({ id, severity, message: `${place()}: ${layer === "corp" ? `${id}: ` : ""}${problem}` });
    } else if (entry.value !== undefined) {
      const { value, problems } = checkValue(leaf, entry.value);
      entry.value = value;
      for (const problem of problems) {
        const isIgnored = layer === "user" && problem.severity === "error";
        const message = `${layer === "corp" ? `${id}: ` : ""}${problem.message}`;
        issues.add({
          id,
          ...problem,
          message: `${place("value")}: ${message}${isIgnored ? "; the value is ignored" : ""}`,
        });
      }
    }
  }
}

/** Issues of one file, up to {@linkcode ISSUES_MAX}. */
class Issues {
  readonly list: ConfigIssue[] = [];

  get isFull(): boolean {
    return this.list.length >= ISSUES_MAX;
  }

  get hasError(): boolean {
    return this.list.some(({ severity }) => severity === "error");
  }

  /** Adds an issue. A full list still takes the first error, which makes a corp.toml invalid. */
  add(issue: ConfigIssue) {
    if (!this.isFull) this.list.push(issue);
    else if (issue.severity === "error" && !this.hasError) this.list[ISSUES_MAX - 1] = issue;
  }
}

const SECRET_ADVICE =
  "is retired: it was never sent, and a secret does not belong in a file. Delete the entry, revoke the " +
  "secret where it came from, add a new one with sbx credentials add mcp --host HOST, and set " +
  "telemetry.credential_ref to its ref";

/**
 * Removed settings, and advice in their place. A file that has them still loads
 * (docs/design/contracts/03-settings.md §3).
 */
const RETIRED: Readonly<Record<string, string>> = {
  "telemetry.api_key": SECRET_ADVICE,
  "telemetry.password": `${SECRET_ADVICE}, and telemetry.user to the user`,
};

/** Message for a retired setting; undefined for any other id. */
export function retiredMessage(id: string): string | undefined {
  return Object.hasOwn(RETIRED, id) ? RETIRED[id] : undefined;
}
