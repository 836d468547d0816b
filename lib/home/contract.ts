/**
 * The contract of a VM's session, made from its profile, corp, the settings and the detections (`Contract`).
 */
import { dirname, join, resolve } from "node:path";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { allowsOverlays, type CorpConfig, type CorpStore } from "../config/corp/mod.ts";
import {
  exportRoutes,
  type LoadedPack,
  loadPack,
  loadPinned,
  OffRules,
  OverlayStore,
  PLACEHOLDERS_FILE,
} from "../detection/active/mod.ts";
import type { RuleTable } from "../policy/author/mod.ts";
import type { Rule, RuleLayers } from "../policy/mod.ts";
import { hostServices, type Profile, type ProfileFile } from "../config/profile/mod.ts";
import { type Contract, droppedOf, type OnFull } from "../session/mod.ts";
import { registriesOf } from "../cache/schema.ts";
import type { SettingsStore } from "../config/settings/mod.ts";
import type { SnapshotLimits } from "../machine/snapshot/mod.ts";
import type { TomlDocument } from "../base/toml/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { isPlan } from "../detection/mod.ts";
import { descriptorsOf, requireFields } from "./descriptors.ts";

type DetectionTerms = Contract["detection"];

/**
 * Detections of one home that belong neither to a profile nor to corp: the user's packs, files in
 * `$SBX_HOME/detection/packs`, and the overlays that are added while VMs run.
 */
export class Detections {
  readonly #dir: string;
  #overlays?: Promise<OverlayStore>;
  /** problems of overlay files and of the user's packs, as they were last read */
  #overlayProblems: string[] = [];
  #packProblems: string[] = [];
  #offProblems: string[] = [];
  /** rules left out, by the id of the profile that they were left out for */
  readonly #dropped = new Map<string, string[]>();

  /** rules that are switched off */
  readonly off: OffRules;

  constructor({ dir }: Pick<Home, "dir">) {
    this.#dir = join(dir, "detection");
    this.off = new OffRules(this.#dir);
  }

  /** Folder of the user's packs. */
  get packs(): string {
    return join(this.#dir, "packs");
  }

  /** Overlays, read at the first call. */
  overlays(): Promise<OverlayStore> {
    this.#overlays ??= OverlayStore.open(join(this.#dir, "overlays"), (message) => {
      this.#overlayProblems.push(message);
      log.warn(message);
    });
    return this.#overlays;
  }

  /**
   * IR of the user's packs and of the active overlays, with their sinks, and the rules that are switched off.
   */
  async irs(): Promise<DetectionTerms> {
    const [overlays, user, off] = await Promise.all([this.overlays(), this.#userPacks(), this.#offIds()]);
    return {
      user: user.map(({ ir }) => ir),
      runtime: overlays.irs(),
      export_routes: { ...overlays.exportRoutes(), ...exportRoutes(user) },
      ...(off.length > 0 && { off }),
    };
  }

  /** A file that is not valid switches nothing off. */
  async #offIds(): Promise<string[]> {
    try {
      const rules = await this.off.list();
      this.#offProblems = [];
      return rules.map(({ id }) => id);
    } catch (error) {
      const { message, hint } = asSbxError(error, `reading ${this.off.path}`);
      const problem = hint === undefined ? message : `${message} (${hint})`;
      if (!this.#offProblems.includes(problem)) log.warn(problem);
      this.#offProblems = [problem];
      return [];
    }
  }

  /**
   * Notes the rules that are left out of a contract, for {@linkcode problems}.
   *
   * @param key profile of the contract; a later call replaces the noted rules
   */
  noteDropped(key: string, contract: Pick<Contract, "corp" | "profile" | "detection">): void {
    const problems = droppedOf(contract).map(({ rule_id, pack_id, kept }) =>
      `the detection "${rule_id}" of the pack "${pack_id}" is left out: the pack "${kept}" has one of that id ` +
      "(rename or remove one of the two; sbx detection list shows them)"
    );
    const known = this.problems();
    for (const problem of problems) if (!known.includes(problem)) log.warn(problem);
    this.#dropped.set(key, problems);
  }

  /** Inactive detections, each with the reason. */
  problems(): string[] {
    return [
      ...this.#overlayProblems,
      ...this.#packProblems,
      ...this.#offProblems,
      ...[...this.#dropped.values()].flat(),
    ];
  }

  /** Forgets the rules that were left out, before a change that may bring them in again. */
  forgetDropped(): void {
    this.#dropped.clear();
  }

  /** A pack that is broken or revoked is reported and skipped. */
  async #userPacks(): Promise<LoadedPack[]> {
    const dir = this.packs;
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch((): string[] => []);
    const packs: LoadedPack[] = [];
    const problems: string[] = [];
    const isPack = (name: string) => /^[^.].*\.(ya?ml|toml|json)$/.test(name) && name !== PLACEHOLDERS_FILE;
    for (const name of names.filter(isPack).sort()) {
      try {
        const pack = await loadPack(join(dir, name));
        packs.push(pack);
        // Of Sigma rules, the ones that are left out.
        if (isPlan(pack.ir)) problems.push(...pack.warnings);
      } catch (error) {
        const [message] = (error as Error).message.split("\n");
        problems.push(message);
        if (!this.#packProblems.includes(message)) log.warn((error as Error).message);
      }
    }
    this.#packProblems = problems;
    return packs;
  }
}

const MIB = 1024 * 1024;
/** Limit of a ledger whose setting is switched off (docs/design/contracts/12-ledger.md §12). */
const LEDGER_MIB = 1024;

/** Size of a cache whose setting is switched off. */
const CACHE_GIB = 10;

/** Setting by which corp, or a person, switches the shared cache off. */
const CACHE_SETTING = "vm.cache.enabled";

/** Setting by which corp forbids logins at MCP servers, and a person can switch them off. */
export const LOGIN_SETTING = "network.mcp_logins";

/** Sources of a contract, besides the profile. */
export interface ContractSources {
  settings: SettingsStore;
  corp: CorpStore;
  detections: Detections;
}

/**
 * Makes a contract and checks it.
 *
 * @param services of the host that the VM gets, of the profile's; default all
 * @param request.project rules of the folder's project file
 * @param request.budget limits of the VM's own
 * @throws {SbxError} `policy.invalid`, `policy.not_found`, `corp.closed`: a VM does not start without its
 * rules; `host.no_service`: the profile does not name it, or services are switched off
 */
export async function makeContract(
  { settings, corp, detections }: ContractSources,
  profile: Profile,
  services?: readonly string[],
  { project, budget }: Pick<Contract, "project" | "budget"> = {},
): Promise<Contract> {
  const hostServices = hostServicesOf(settings, profile, services);
  const [profileTerms, corpTerms, detection] = await Promise.all([
    profileLayer(profile, corp),
    corpLayer(corp),
    detections.irs(),
  ]);
  const cache = cacheOf(settings, profile);
  const contract = {
    ...(cache && { cache }),
    detection,
    profile: profileTerms,
    corp: corpTerms,
    ...(project && { project }),
    ...(budget && { budget }),
    network: { ...networkOf(settings), ...hostServices },
    ledger: ledgerOf(settings, corp),
    snapshots: {
      ...snapshotLimits(settings),
      ...settings.inForce("vm.snapshots.enabled") !== false && { turns: true as const },
    },
  };
  await requireGood(contract);
  if (project) {
    const { narrowing } = await import("../policy/mod.ts");
    await requireFields(narrowing(project), profileTerms.grpc_descriptors);
  }
  detections.noteDropped(profile.id, contract);
  return contract;
}

/**
 * The part of a contract that is the profile's, with the person's rules for it where corp allows them.
 *
 * @throws {SbxError} `policy.invalid`, `policy.not_found`
 */
export async function profileLayer(
  profile: Profile,
  { state }: Pick<CorpStore, "state">,
): Promise<Contract["profile"]> {
  const { overlay: _, ...bare } = profile;
  const [packs, rules, grpc_descriptors] = await Promise.all([
    profilePacks(profile),
    profileRules(allowsOverlays(state) ? profile : bare),
    descriptorsOf(profile),
  ]);
  await requireFields(rules, grpc_descriptors);
  return {
    rules,
    ...(grpc_descriptors !== undefined && { grpc_descriptors }),
    packs: packs.map(({ ir }) => ir),
    export_routes: exportRoutes(packs),
    revision: profile.revision,
    mcp: profile.mcp,
    providers: profile.credentials.providers,
    ...definitionsIn(profile.credentials.custom, profile.credentials.hosts, profile.credentials.labels),
    ...(profile.credentials.accounts === "stored" && { accounts: "stored" }),
    ...(profile.budget && { budget: profile.budget }),
    ...(profile.detection.response && { response: profile.detection.response }),
    ...(profile.activity && { paths: profile.activity.paths }),
    ...(profile.services && { services: profile.services }),
  };
}

/**
 * Checks everything that a VM of this profile needs of its files: rules, rule files, packs.
 *
 * @returns one line for each problem, with its place
 */
export async function profileProblems(profile: Profile): Promise<string[]> {
  const checks: [path: string[], check: () => Promise<unknown>][] = [
    [
      ["rule_files"],
      async () => {
        const rules = await profileRules(profile);
        await requireGood({ profile: { rules }, corp: { rules: [] } });
        // Broken ones are a problem of their own.
        const descriptors = await descriptorsOf(profile).catch(() => null);
        if (descriptors !== null) await requireFields(rules, descriptors);
      },
    ],
    [["grpc"], () => descriptorsOf(profile)],
    [["detection"], () => profilePacks(profile)],
  ];
  const problems = await Promise.all(checks.map(async ([path, check]) => {
    try {
      await check();
      return [];
    } catch (error) {
      const { message } = asSbxError(error, `reading the files of profile "${profile.id}"`);
      const place = profile.document.placeOf(path);
      return message.split("\n").map((line) => /^\S+:\d+: /.test(line) ? line : `${place}: ${line}`);
    }
  }));
  return problems.flat();
}

/**
 * Corp's part of a contract, from the active corp.toml: the last good one if it is broken now.
 *
 * @throws {SbxError} `corp.closed`: it is broken, and there is no last good one;
 * `policy.invalid`, `policy.not_found`
 */
export async function corpLayer(
  { state, path }: Pick<CorpStore, "state" | "path">,
): Promise<Contract["corp"]> {
  if (state.status === "absent") return { rules: [], packs: [], mcp: {} };
  if (state.status === "closed") {
    throw new SbxError("corp.closed", `corp's rules are unknown: ${state.error.message}`, {
      cause: state.error,
      hint: `ask your administrator to repair ${path}`,
    });
  }
  const { file, document, path: origin } = state.config;
  const { enforcement, sigma } = file.corp_rule_files;
  const packs = sigma ? [await loadPack(besideOf(origin, sigma))] : [];
  return {
    rules: await readLayer(
      { document, layer: "corp", at: ["corp", "rules"], rules: file.corp.rules },
      enforcement && besideOf(origin, enforcement),
    ),
    packs: packs.map(({ ir }) => ir),
    export_routes: exportRoutes(packs),
    mcp: file.mcp,
    ...(file.budget && { budget: file.budget }),
    ...(file.corp.known_hosts && { known_hosts: file.corp.known_hosts }),
    ...(file.detection?.response && { response: file.detection.response }),
    ...(isSwitchedOff(file.settings[LOGIN_SETTING]) && { logins: false }),
    ...(isSwitchedOff(file.settings[CACHE_SETTING]) && { cache: false as const }),
    ...(file.corp.limits?.providers && { providers: file.corp.limits.providers }),
    ...definitionsIn(
      file.corp.providers,
      file.corp.limits?.provider_hosts,
      file.corp.limits?.provider_labels,
    ),
    ...(file.corp.limits?.vm_minutes && { vm_minutes: file.corp.limits.vm_minutes }),
  };
}

/** Added providers of one author, and the hosts and keys that it leaves to some. */
function definitionsIn(
  custom: ProfileFile["credentials"]["custom"],
  hosts: ProfileFile["credentials"]["hosts"] = {},
  labels: ProfileFile["credentials"]["labels"] = {},
): Pick<Contract["profile"], "custom" | "provider_hosts" | "provider_labels"> {
  return {
    ...(Object.keys(custom).length > 0 && { custom }),
    ...(Object.keys(hosts).length > 0 && { provider_hosts: hosts }),
    ...(Object.keys(labels).length > 0 && { provider_labels: labels }),
  };
}

/** A setting that permits something is off by its value, or because it is switched off itself. */
function isSwitchedOff(entry: { value?: unknown; enabled?: boolean } | undefined): boolean {
  return entry?.value === false || entry?.enabled === false;
}

/** Rules in a document that was read. */
interface RuleTables {
  document: TomlDocument;
  layer: "corp" | "profile";
  /** path of the tables in the document */
  at: string[];
  rules: Record<string, RuleTable>;
}

/**
 * Reads the rules of a layer: of its document, and of the rule file that this names. The
 * reader is loaded only for rules.
 */
async function readLayer(tables: RuleTables, ruleFile: string | undefined): Promise<Rule[]> {
  const { document, layer, at, rules } = tables;
  if (Object.keys(rules).length === 0 && !ruleFile) return [];
  const { readRules, rulesOf } = await import("../policy/author/mod.ts");
  const inDocument = rulesOf(document, layer, at, rules);
  return ruleFile ? [...inDocument, ...await readRules(ruleFile, [layer, "default"])] : inDocument;
}

/** Rules of a profile, of the rule file that it names, and of its overlay. */
async function profileRules({ document, rules, rule_files, path, overlay }: Profile): Promise<Rule[]> {
  const place: Pick<RuleTables, "layer" | "at"> = { layer: "profile", at: ["profiles", "rules"] };
  const own = await readLayer(
    { ...place, document, rules },
    rule_files?.enforcement && besideOf(path, rule_files.enforcement),
  );
  if (!overlay) return own;
  return [
    ...own,
    ...await readLayer({ ...place, document: overlay.document, rules: overlay.rules }, undefined),
  ];
}

/** Packs that a profile pins, and the pack that is its rule file. */
async function profilePacks({ detection, rule_files, path }: Profile): Promise<LoadedPack[]> {
  const pinned = await loadPinned(detection.packs, path ? dirname(path) : ".");
  const ruleFile = rule_files?.sigma ? [await loadPack(besideOf(path, rule_files.sigma))] : [];
  return [...pinned, ...ruleFile];
}

/** Files that corp.toml names; relative paths start at its folder. */
export function corpFiles({ file, path }: CorpConfig): string[] {
  const { enforcement, sigma } = file.corp_rule_files;
  return [enforcement, sigma].flatMap((each) => each ? [besideOf(path, each)] : []);
}

/**
 * Refuses rules that do not compile, before any process gets them.
 *
 * @throws {SbxError} `policy.invalid`
 */
export async function requireGood(
  { corp, profile, project }: RuleLayers,
): Promise<void> {
  // A VM without rules of its own has the built-in ones, which need no check.
  if (corp.rules.length + profile.rules.length + (project?.length ?? 0) === 0) return;
  const { compileLayers } = await import("../policy/mod.ts");
  compileLayers({ corp, profile, project });
}

/** Settings of the network of VMs; the service itself uses its proxy and authorities too. */
export function networkOf(settings: SettingsStore): Contract["network"] {
  const extraCaFile = settings.inForce("network.extra_ca_file");
  const proxy = proxyOf(settings);
  const priceFile = settings.inForce("network.model_price_file");
  return {
    resolvers: (settings.inForce("network.dns_resolvers") ?? []) as string[],
    overrides: (settings.inForce("network.upstream_overrides") ?? []) as string[],
    ...(proxy && { proxy }),
    ...(extraCaFile ? { extra_ca_file: extraCaFile as string } : {}),
    ...(priceFile ? { price_file: priceFile as string } : {}),
    ...(settings.inForce("network.http2") === false && { http2: false }),
    ...(settings.inForce("network.websocket_messages") === true && { websocket_messages: true }),
  };
}

/** Settings of the proxy; `undefined` while all are empty. */
function proxyOf(settings: SettingsStore): Contract["network"]["proxy"] {
  const url = settings.inForce("network.upstream_proxy");
  const noProxy = settings.inForce("network.no_proxy") as string[] | undefined;
  const authFile = settings.inForce("network.upstream_proxy_auth_file");
  const authProgram = settings.inForce("network.upstream_proxy_auth_program");
  const byName = settings.inForce("network.upstream_proxy_by_name");
  if (!url && !authProgram && byName !== true) return undefined;
  return {
    ...(url ? { url: url as string } : {}),
    ...(noProxy?.length && { no_proxy: noProxy }),
    ...(authFile ? { auth_file: authFile as string } : {}),
    ...(authProgram ? { auth_program: authProgram as string } : {}),
    ...(byName === true && { by_name: true }),
  };
}

/** Setting by which corp forbids services of the host, and a person can switch them off. */
const HOST_SERVICES_SETTING = "network.host_services";

/** The services of the host that the profile names; none while corp, or a person, switches them off. */
function hostServicesOf(
  settings: SettingsStore,
  { id, host }: Profile,
  asked?: readonly string[],
): Pick<Contract["network"], "host_services"> {
  const named = hostServices(host?.services ?? []);
  const isOn = settings.inForce(HOST_SERVICES_SETTING) !== false;
  const missing = asked?.find((name) => !isOn || named.every((service) => service.name !== name));
  if (missing !== undefined && !isOn) {
    throw new SbxError(
      "host.no_service",
      `a VM cannot get "${missing}": services of this host are switched off`,
      {
        hint: `sbx settings explain ${HOST_SERVICES_SETTING} says by whom`,
      },
    );
  }
  if (missing !== undefined) {
    throw new SbxError("host.no_service", `profile "${id}" names no service "${missing}" of this host`, {
      hint: named.length > 0
        ? `it names ${named.map(({ name }) => name).join(", ")}`
        : `add it to its [host] services (docs/guides/host-services.md)`,
    });
  }
  const services = isOn ? named.filter(({ name }) => asked?.includes(name) ?? true) : [];
  return services.length > 0 ? { host_services: services } : {};
}

/** The shared cache of a profile's VMs; `undefined` while it names no tool, or the cache is switched off. */
function cacheOf(settings: SettingsStore, { id, cache }: Profile): Contract["cache"] {
  const { enabled, max_bytes } = cacheLimits(settings);
  if (!cache || !enabled) return undefined;
  const registries = registriesOf(cache);
  if (Object.keys(registries).length === 0) return undefined;
  return {
    scope: cache.scope === "profile" ? `profile-${id}` : "home",
    registries,
    max_bytes,
  };
}

/** The settings of the shared cache. */
export function cacheLimits(settings: SettingsStore): { enabled: boolean; max_bytes: number } {
  return {
    enabled: settings.inForce(CACHE_SETTING) === true,
    max_bytes: Number(settings.inForce("vm.cache.max_gb") ?? CACHE_GIB) * 1024 * MIB,
  };
}

/** Limits of a VM's snapshots, as the settings have them. */
export function snapshotLimits(settings: SettingsStore): SnapshotLimits {
  const number = (id: string) => Number(settings.resolved.byId.get(id)!.effective_value);
  return { auto: number("vm.snapshots.auto_max"), manual: number("vm.snapshots.manual_max") };
}

/** Limit of a session's ledger, the reaction to a full one, and corp's collecting server. */
export function ledgerOf(settings: SettingsStore, { state }: CorpStore): Contract["ledger"] {
  const size = settings.inForce("ledger.max_size_mb") ?? LEDGER_MIB;
  const corp = "config" in state ? state.config : undefined;
  const { url, auth_token_file } = corp?.file.ledger ?? {};
  return {
    on_full: (settings.inForce("ledger.on_full") ?? "pause") as OnFull,
    ...(typeof size === "number" && size > 0 && { max_bytes: size * MIB }),
    ...(url !== undefined && { url }),
    ...(auth_token_file !== undefined && { auth_token_file: besideOf(corp?.path, auth_token_file) }),
  };
}

function besideOf(file: string | undefined, path: string): string {
  return file ? resolve(dirname(file), path) : path;
}
