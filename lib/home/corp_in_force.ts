/**
 * Everything that is active from corp.toml, entry by entry
 * (docs/design/contracts/03-settings.md §3, "Active entries").
 */
import { asSbxError } from "../base/error/mod.ts";
import { count } from "../base/text/mod.ts";
import { isTable, type TomlDocument } from "../base/toml/mod.ts";
import type { CorpStore } from "../config/corp/mod.ts";
import { isSecret, type SettingsStore } from "../config/settings/mod.ts";
import { rulesOf } from "../detection/mod.ts";
import { corpLayer } from "./contract.ts";

/** An active entry of corp.toml, or of a file that it names. */
export interface CorpEntry {
  /** table of the entry */
  kind: string;
  id: string;
  /** its value, in short */
  text: string;
  /** `file:line` */
  place: string;
}

export interface CorpInForce {
  rule_count: number;
  in_force: CorpEntry[];
  /** ISO 8601: since when the text of corp.toml is active in this home */
  since?: string;
  error?: string;
}

/** Longest value, in characters: this is an overview. */
const TEXT_MAX = 160;

/** Tables whose entries are listed one by one, by the path of the table. */
const TABLES: readonly [kind: string, path: readonly string[]][] = [
  ["requirement", ["corp", "require"]],
  ["limit", ["corp", "limits"]],
  ["record", ["corp", "records"]],
  ["provider", ["corp", "providers"]],
  ["budget", ["budget"]],
  ["file", ["corp_rule_files"]],
  ["fleet", ["fleet"]],
  ["ledger", ["ledger"]],
  ["release", ["release"]],
];

/**
 * Lists everything active from corp.toml, of the last good version while the file is broken. Values of
 * secret settings are not in it.
 *
 * @returns `error`: the rules or detections cannot be read now, and are missing in the list
 */
export async function corpInForce(
  corp: Pick<CorpStore, "state" | "path" | "since">,
  settings: Pick<SettingsStore, "resolved">,
): Promise<CorpInForce> {
  const { state } = corp;
  if (!("config" in state)) return { rule_count: 0, in_force: [] };
  const { file, document } = state.config;
  const entries: CorpEntry[] = [];
  const add = (kind: string, id: string, text: string, place: string) =>
    entries.push({ kind, id, text: shorten(text), place });
  for (const [id, { value, hidden, enabled }] of Object.entries(file.settings)) {
    const type = settings.resolved.byId.get(id)?.setting_type;
    const shown = type !== undefined && isSecret(type) ? "a secret" : show(value);
    const parts = [
      ...(value === undefined ? [] : [`= ${shown}`]),
      ...(hidden === undefined ? [] : [hidden ? "hidden" : "shown"]),
      ...(enabled === undefined ? [] : [enabled ? "switched on" : "switched off"]),
    ];
    add("setting", id, parts.join(", "), document.placeOf(["settings", id]));
  }
  for (const [id, server] of Object.entries(file.mcp)) {
    const address = "url" in server ? server.url : "command" in server ? server.command : undefined;
    add("mcp", id, server.enabled ? address ?? "added" : "disabled", document.placeOf(["mcp", id]));
  }
  for (const [kind, path] of TABLES) listTable(document, kind, path, add);
  for (const [at, { id, form, url }] of file.sinks.entries()) {
    add("sink", id, [form, url].filter(Boolean).join(" "), document.placeOf(["sinks", at]));
  }
  listTable(document, "response", ["detection", "response", "severity"], add);
  listTable(document, "response", ["detection", "response", "rule"], add);
  if (file.refresh_policy) {
    add("refresh_policy", "", file.refresh_policy, document.placeOf(["refresh_policy"]));
  }
  const { known_hosts } = file.corp;
  if (known_hosts) add("known_hosts", "", show(known_hosts), document.placeOf(["corp", "known_hosts"]));

  let problem: string | undefined;
  let rules = 0;
  try {
    const layer = await corpLayer(corp);
    rules = layer.rules.length;
    for (const { id, action, name, file: at, line } of layer.rules) {
      add("rule", id, name === id ? action : `${action}: ${name}`, at ? `${at}:${line ?? 1}` : document.path);
    }
    for (const pack of layer.packs) {
      const place = document.placeOf(["corp_rule_files", "sigma"]);
      add("pack", pack.pack_id, `${pack.pack_version}, ${count(rulesOf(pack).length, "detection")}`, place);
    }
  } catch (error) {
    problem = asSbxError(error, `reading the rules of ${corp.path}`).message;
  }
  return {
    rule_count: rules,
    in_force: entries,
    ...(corp.since && { since: corp.since }),
    ...(problem !== undefined && { error: problem }),
  };
}

function listTable(
  document: TomlDocument,
  kind: string,
  path: readonly string[],
  add: (kind: string, id: string, text: string, place: string) => void,
): void {
  let table: unknown = document.value;
  for (const key of path) table = isTable(table) ? table[key] : undefined;
  if (!isTable(table)) return;
  for (const [id, value] of Object.entries(table)) {
    add(kind, id, show(value), document.placeOf([...path, id]));
  }
}

function show(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length <= TEXT_MAX ? line : `${line.slice(0, TEXT_MAX - 1)}…`;
}
