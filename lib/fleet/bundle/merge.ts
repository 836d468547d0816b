/** Joins a machine's corp.toml with a bundle's: the machine's own entries win (docs/guides/fleet.md). */
import { dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import type { CorpConfig } from "../../config/corp/mod.ts";
import { PRIORITY_DEFAULT } from "../../policy/mod.ts";
import { stringifyToml } from "../../base/toml/mod.ts";

type Table = Record<string, unknown>;

/** Tables that name the bundle, keys and collectors: never a bundle's. */
const OWN = ["fleet", "release", "ledger"];
/** Tables in which a machine's entry replaces the bundle's. */
const BY_ENTRY = ["settings", "mcp", "corp_rule_files"];
/** Paths that begin at the machine's corp.toml. */
const PATHS: Record<string, readonly string[]> = {
  corp_rule_files: ["enforcement", "sigma"],
  ledger: ["auth_token_file"],
  release: ["hmac_key_file", "trust_file"],
};

/** A joined corp.toml. */
export interface Joined {
  text: string;
  /** entries of the bundle that the machine's own override, such as `settings.vm.memory_mb` */
  held: string[];
}

/**
 * Joins the corp.toml of a machine with that of a bundle.
 *
 * @throws {SbxError} `bundle.refused`: the bundle would set entries reserved to the machine, or loosen its
 * rules
 */
export function joinCorp(own: CorpConfig, bundle: CorpConfig): Joined {
  const [ours, theirs] = [own.document.value as Table, bundle.document.value as Table];
  const named = OWN.find((name) => Object.hasOwn(theirs, name));
  if (named) throw refused(`it has [${named}], which only ${own.path} may have`);
  requireTighter(own, bundle);
  const base = withPaths(ours, dirname(own.path));
  const held: string[] = [];
  const joined: Table = { ...theirs, ...base };
  const entries = (name: string, one: unknown, other: unknown): Table => {
    const [low, high] = [tableOf(one), tableOf(other)];
    held.push(...Object.keys(low).filter((key) => Object.hasOwn(high, key)).map((key) => `${name}.${key}`));
    return { ...low, ...high };
  };
  for (const name of BY_ENTRY) {
    if (theirs[name] !== undefined || base[name] !== undefined) {
      joined[name] = entries(name, theirs[name], base[name]);
    }
  }
  const [low, high] = [tableOf(theirs.corp), tableOf(base.corp)];
  joined.corp = {
    ...low,
    ...high,
    rules: entries("corp.rules", low.rules, high.rules),
    limits: entries("corp.limits", low.limits, high.limits),
  };
  if (theirs.budget !== undefined && base.budget !== undefined) held.push("budget");
  return { text: stringifyToml(joined), held };
}

/** Refuses a bundle's rules that would come before the machine's own corp.toml rules, unless they block. */
function requireTighter(own: CorpConfig, bundle: CorpConfig): void {
  const files = own.file.corp_rule_files;
  for (const name of ["enforcement", "sigma"] as const) {
    if (files[name] !== undefined && bundle.file.corp_rule_files[name] !== undefined) {
      throw refused(`it names corp_rule_files.${name}, and so does ${own.path}`);
    }
  }
  const priority = (rule: { priority?: number }) => rule.priority ?? PRIORITY_DEFAULT.corp;
  const first = Math.max(...Object.values(own.file.corp.rules).map(priority));
  const hasFile = files.enforcement !== undefined;
  if (!hasFile && first === -Infinity) return;
  if (bundle.file.corp_rule_files.enforcement !== undefined) {
    throw refused(
      `it names corp_rule_files.enforcement, and ${own.path} has rules: put its rules into [corp.rules]`,
    );
  }
  for (const [id, rule] of Object.entries(bundle.file.corp.rules)) {
    if (rule.action === "block" || !hasFile && priority(rule) >= first) continue;
    throw refused(
      `its rule "${id}" would be asked before rules of ${own.path}` +
        (hasFile ? ", which are in a file: it may only block" : `: give it a priority of ${first} or more`),
    );
  }
}

function withPaths(value: Table, folder: string): Table {
  const copy = { ...value };
  for (const [name, keys] of Object.entries(PATHS)) {
    if (!isObject(copy[name])) continue;
    const table = { ...copy[name] as Table };
    for (const key of keys) {
      if (typeof table[key] === "string") table[key] = resolve(folder, table[key] as string);
    }
    copy[name] = table;
  }
  return copy;
}

function tableOf(value: unknown): Table {
  return isObject(value) ? value as Table : {};
}

function refused(problem: string): SbxError {
  return new SbxError("bundle.refused", `the bundle is refused: ${problem}`, {
    hint: "its publisher must correct it; what was in force stays",
  });
}
