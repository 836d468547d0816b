/**
 * Installed bundles: their files and state, verified at each read and joined with the machine's corp.toml
 * (docs/guides/fleet.md).
 */
import { dirname, join, resolve } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { type CorpConfig, loadCorp, readCorpFile } from "../../config/corp/mod.ts";
import {
  fetchRecords,
  findKeyFiles,
  INDEX_NAME,
  readReleaseKeys,
  verifyManifest,
} from "../../release/mod.ts";
import { parseToml, stringifyToml } from "../../base/toml/mod.ts";
import { type BundleFiles, CORP_NAME } from "./document.ts";
import { entryOf, openBundle } from "./verify.ts";
import { bundlePaths } from "./paths.ts";
import { isObject } from "../../base/object/mod.ts";
import { PRIORITY_DEFAULT } from "../../policy/mod.ts";
import { z } from "zod";
import { ChannelId, ReleaseVersion } from "../../release/schema.ts";

/**
 * Verifies an installed bundle and joins it with corp.toml.
 *
 * @returns the configuration, and the bundle's entries that the machine's own corp.toml overrides
 * @throws {SbxError} `release.…`, `bundle.…`, `corp.invalid`
 */
export async function applyBundle(
  home: Pick<Home, "dir">,
  own: CorpConfig,
  { url, channel, version }: Pick<Active, "url" | "channel" | "version">,
): Promise<{ config: CorpConfig; held: string[] }> {
  const folder = bundlePaths(home).version(version);
  const read = async (name: string) => {
    try {
      return await Deno.readFile(join(folder, name));
    } catch (cause) {
      throw damaged(join(folder, name), cause);
    }
  };
  const keys = await readReleaseKeys(await findKeyFiles({ release: own.file.release, path: own.path }));
  const { records } = await fetchRecords(
    new URL(url),
    channel,
    keys,
    (address) => read(address.pathname.endsWith(".dsse") ? `${INDEX_NAME}.dsse` : INDEX_NAME),
  );
  const record = records.find((each) => each.version === version);
  if (!record) throw damaged(folder);
  const manifest = verifyManifest(await read(MANIFEST), record, channel, keys.hmac);
  const entry = entryOf(manifest);
  const files = openBundle(await read(CONTENT), entry);
  const { text, held } = joinCorp(own, await parseCorp(files, entry.name));
  const place = join(folder, FILES);
  await writeFiles(place, { ...files, [CORP_NAME]: text });
  const config = await loadCorp(join(place, CORP_NAME));
  return { config: { ...config, bundle: { channel, version, blake3: entry.blake3 } }, held };
}

/** Reads the corp.toml of a bundle. @throws {SbxError} `bundle.invalid` */
export async function parseCorp(files: BundleFiles, name: string): Promise<CorpConfig> {
  const path = `${name}:${CORP_NAME}`;
  try {
    const document = parseToml(files[CORP_NAME], path);
    return { file: await readCorpFile(document, "bundle.invalid"), document, path };
  } catch (cause) {
    const { message, hint = "correct that file of the bundle" } = cause as SbxError;
    throw new SbxError("bundle.invalid", message, { cause, hint });
  }
}

type Table = Record<string, unknown>;

// Joining corp.toml with a bundle's: the machine's own entries win.

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
interface Joined {
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

export const PUBLISHER_HINT = "its publisher must correct it; the earlier bundle stays active";

function refused(problem: string): SbxError {
  return new SbxError("bundle.refused", `the bundle is refused: ${problem}`, { hint: PUBLISHER_HINT });
}

// Files of a home's bundle, and the state that `sbx fleet status` shows.

/**
 * Names in the folder of a version. `FILES` has the bundle's own files, and corp.toml
 * joined with that of the machine.
 */
export const MANIFEST = "manifest.json", CONTENT = "bundle.json", FILES = "files";

const Active = z.strictObject({
  schema: z.literal("sbx.fleet-bundle-active.v1"),
  url: z.string(),
  channel: ChannelId,
  version: ReleaseVersion,
  since: z.iso.datetime(),
});

export type Active = z.infer<typeof Active>;

/** Reads the active bundle; `undefined`: none. @throws {SbxError} `bundle.damaged` */
export async function readActive(home: Pick<Home, "dir">): Promise<Active | undefined> {
  const path = bundlePaths(home).active;
  try {
    return Active.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw damaged(path, cause);
  }
}

/** State after the last check. */
export interface BundleStatus {
  schema: "sbx.fleet-bundle-status.v1";
  at: string;
  url: string;
  channel: string;
  /** active version; null: none */
  in_force: string | null;
  /** release for this machine; null: none, or the check failed */
  offered: string | null;
  /** `kept`: the release for this machine is older than the active one, which was not revoked */
  state: "installed" | "same" | "kept" | "revoked" | "none" | "failed";
  /** position of this machine in the stages of the channel, from 0 to below 100 */
  place: number;
  labels: string[];
  /** entries of the bundle that this machine's corp.toml overrides */
  held: string[];
  problem: string | null;
}

export async function writeStatus(home: Pick<Home, "dir">, status: BundleStatus): Promise<void> {
  const path = bundlePaths(home).status;
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, JSON.stringify(status, null, 2) + "\n");
}

/** Reads the state of the last check; `undefined`: no check yet. */
export async function readBundleStatus(home: Pick<Home, "dir">): Promise<BundleStatus | undefined> {
  const text = await ifFound(Deno.readTextFile(bundlePaths(home).status));
  return text === undefined ? undefined : JSON.parse(text);
}

/** Rewrites files that differ from the expected ones, which undoes local changes. */
export async function writeFiles(folder: string, files: BundleFiles): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    if (await Deno.readTextFile(path).catch(() => undefined) === text) continue;
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, text);
  }
}

function damaged(path: string, cause?: unknown): SbxError {
  return new SbxError("bundle.damaged", `the bundle of this machine is damaged: ${path}`, {
    cause,
    hint: "sbx fleet update fetches it again",
  });
}
