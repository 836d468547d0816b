/** What holds in a VM's session, made of its profile, of corp and of the settings (`Contract`). */
import { dirname, resolve } from "node:path";
import type { CorpConfig, CorpStore } from "../corp/mod.ts";
import { loadPack, loadPinned } from "../detection/live/load.ts";
import { type DetectionIr, Matcher } from "../detection/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Layer, Rule } from "../policy/mod.ts";
import { readRules, rulesOf } from "../policy/author/read.ts";
import type { Profile } from "../profile/mod.ts";
import { type Contract, detectionsOf, type OnFull } from "../session/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import type { Detections } from "./detections.ts";

const MIB = 1024 * 1024;

/** What a contract is made of, beside the profile. */
export interface ContractSources {
  settings: SettingsStore;
  corp: CorpStore;
  detections: Detections;
}

/**
 * Reads and checks everything that a session needs.
 *
 * @throws {SbxError} `policy.invalid`, `policy.not_found`, `corp.closed`: a VM does not start without its rules
 */
export async function makeContract(
  { settings, corp, detections }: ContractSources,
  profile: Profile,
): Promise<Contract> {
  const [ofProfile, ofCorp, detection] = await Promise.all([
    profileLayer(profile),
    corpLayer(corp),
    detections.irs(),
  ]);
  const contract = {
    detection,
    profile: ofProfile,
    corp: ofCorp,
    network: networkOf(settings),
    ledger: ledgerOf(settings, corp),
  };
  await requireGood(contract);
  return contract;
}

/** What a profile brings. @throws {SbxError} `policy.invalid`, `policy.not_found` */
export async function profileLayer(profile: Profile): Promise<Contract["profile"]> {
  const rules = rulesOf(profile.document, "profile", ["profiles", "rules"], profile.rules);
  const file = profile.rule_files?.enforcement;
  if (file) rules.push(...await readRules(besideOf(profile.path, file), ["profile", "default"]));
  return {
    rules,
    packs: await profilePacks(profile),
    mcp: profile.mcp,
    providers: profile.credentials.providers,
  };
}

/**
 * What corp brings, from the corp.toml in force: the last good one where it is broken.
 *
 * @throws {SbxError} `corp.closed` when it is broken and no good one is known; `policy.invalid`, `policy.not_found`
 */
export async function corpLayer(
  { state, path }: Pick<CorpStore, "state" | "path">,
): Promise<Contract["corp"]> {
  if (state.status === "absent") return { rules: [], packs: [], mcp: {} };
  if (state.status === "closed") {
    throw new SbxError("corp.closed", `corp's rules are not known: ${state.error.message}`, {
      cause: state.error,
      hint: `ask your administrator to mend ${path}`,
    });
  }
  const { file, document } = state.config;
  const rules: Rule[] = rulesOf(document, "corp", ["corp", "rules"], file.corp.rules);
  const { enforcement, sigma } = file.corp_rule_files;
  if (enforcement) {
    rules.push(...await readRules(besideOf(path, enforcement), ["corp", "default"] satisfies Layer[]));
  }
  const packs = sigma ? [(await loadPack(besideOf(path, sigma))).ir] : [];
  return { rules, packs, mcp: file.mcp };
}

/** The packs that a profile pins, and the one that it names as a rule file. */
async function profilePacks({ detection, rule_files, path }: Profile): Promise<DetectionIr[]> {
  const pinned = await loadPinned(detection.packs, path ? dirname(path) : ".");
  const named = rule_files?.sigma ? [await loadPack(besideOf(path, rule_files.sigma))] : [];
  return [...pinned, ...named].map(({ ir }) => ir);
}

/** The files that a corp.toml names: a relative path begins in the folder of corp.toml. */
export function corpFiles({ file }: CorpConfig, path: string): string[] {
  const { enforcement, sigma } = file.corp_rule_files;
  return [enforcement, sigma].flatMap((each) => each ? [besideOf(path, each)] : []);
}

/**
 * Refuses rules that do not compile and detections that cannot run together, before any process is told of them.
 *
 * @throws {SbxError} `policy.invalid`, `detection.conflict`
 */
export async function requireGood(
  contract: Pick<Contract, "corp" | "profile" | "detection">,
): Promise<void> {
  new Matcher(detectionsOf(contract));
  const { corp, profile } = contract;
  // Without rules of its own a VM has the built-in ones, which need no check.
  if (corp.rules.length + profile.rules.length === 0) return;
  const { policyOf } = await import("../session/policy.ts");
  policyOf({ corp, profile });
}

function networkOf(settings: SettingsStore): Contract["network"] {
  const extraCaFile = valueOf(settings, "network.extra_ca_file");
  const priceFile = valueOf(settings, "network.model_price_file");
  return {
    resolvers: (valueOf(settings, "network.dns_resolvers") ?? []) as string[],
    overrides: (valueOf(settings, "network.upstream_overrides") ?? []) as string[],
    ...(extraCaFile ? { extra_ca_file: extraCaFile as string } : {}),
    ...(priceFile ? { price_file: priceFile as string } : {}),
  };
}

/** Absent where `SBX_DEFAULTS_CONFIG` names a file without this setting. */
function valueOf(settings: SettingsStore, id: string): unknown {
  return settings.resolved.byId.get(id)?.effective_value;
}

/** How large the ledger of a session may be, what happens when it is full, and where corp collects it. */
export function ledgerOf(settings: SettingsStore, { state }: CorpStore): Contract["ledger"] {
  const size = valueOf(settings, "ledger.max_size_mb");
  const { url, auth_token_file } = "config" in state ? state.config.file.ledger : {};
  return {
    on_full: (valueOf(settings, "ledger.on_full") ?? "pause") as OnFull,
    ...(typeof size === "number" && size > 0 && { max_bytes: size * MIB }),
    ...(url !== undefined && { url }),
    ...(auth_token_file !== undefined && { auth_token_file }),
  };
}

function besideOf(file: string | undefined, path: string): string {
  return file ? resolve(dirname(file), path) : path;
}
