/** Issues of a home: reasons why VMs cannot start, inactive configuration, and VMs with a problem. */
import { currentArch } from "../../base/arch/mod.ts";
import { type Assets, bootFiles, resolveAssets, verifyAssets } from "../../release/asset/mod.ts";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { caFiles, openCa } from "../../network/ca/mod.ts";
import { type CorpStore, corpSummary } from "../../config/corp/mod.ts";
import { CredentialStore, storePath } from "../../credential/mod.ts";
import { bootAssets, listProfiles, missingObom, type Profile } from "../../config/profile/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { requireEnrolment } from "../contract/enrolment.ts";
import { requireCorpVersion } from "../contract/corp.ts";
import { corpLayer, type Detections, profileLayer } from "../../home/mod.ts";
import type { FindingExport } from "../record/export.ts";
import type { ProfilesInForce } from "../contract/active_profiles.ts";
import { healthProbes, type HealthSources, type Probe, runProbes, withDeadline } from "./health.ts";
import type { LoginStart } from "../login_start.ts";
import type { ContractRefresh } from "../contract/refresh.ts";
import type { ReleaseStanding } from "../contract/publisher_status.ts";
import type { Supervisor } from "../vm/supervisor.ts";
import { timeLimit } from "../../base/time/mod.ts";

/** Parts of the service that can have issues. */
export interface IssueSources extends HealthSources {
  supervisor: Supervisor;
  settings: SettingsStore;
  refresh: ContractRefresh;
  inForce: ProfilesInForce;
  detections: Detections;
  findings: FindingExport;
  standing: ReleaseStanding;
  loginStart: LoginStart;
}

/** Lists all issues: reasons why VMs cannot start, inactive configuration, and failed or paused VMs. */
export async function listIssues(sources: IssueSources): Promise<string[]> {
  const { home, supervisor, settings, corp, inForce, refresh, detections, findings } = sources;
  const checks: [string, () => unknown][] = [
    ["the version that corp requires", () => requireCorpVersion(corp)],
    ["the enrolment in the fleet", () => requireEnrolment(home, corp)],
    ["programs of this host", () => supervisor.hypervisor.requireHost()],
    ["assets", () => resolveAssets(home, currentArch())],
    ["the CA", () => checkCa(home)],
    ["credentials", () => new CredentialStore(storePath(home)).list()],
  ];
  const results = await runProbes([
    ["profiles of running VMs", () => inForce.problems()],
    ["rules that pass TLS", () => passthroughIssues(home, corp)],
    ...checks.map((
      [what, check],
    ): Probe => [what, () => Promise.resolve().then(check).then(() => [], describe)]),
    ["assets of profiles", () => profileIssues(sources)],
    ["OBOMs of profiles", () => obomIssues(home)],
    ...healthProbes(sources),
  ]);
  // An issue of every profile is listed once.
  return [
    ...new Set([
      ...corpIssues(corp),
      ...settingsIssues(settings),
      ...refresh.problems(),
      ...detections.problems(),
      ...findings.problems(),
      ...sources.loginStart.problems(),
      ...results,
      ...vmIssues(supervisor),
    ]),
  ];
}

/** A broken corp.toml comes first: the administrator's rules are not active. */
function corpIssues(corp: CorpStore): string[] {
  const { state } = corp;
  if (!("error" in state)) return [];
  const { message, hint } = state.error;
  return [`${corpSummary(corp)}: ${message.split("\n")[0]}${hint ? ` (${hint})` : ""}`];
}

/** An unreadable settings.toml, and inactive values. */
function settingsIssues({ resolved }: SettingsStore): string[] {
  const errors = resolved.issues.filter(({ severity }) => severity === "error");
  return errors.map(({ id, message }) => `${id}: ${message.replaceAll("\n", " ")}`);
}

/** The CA is made with the first VM. Once it exists, only its user may read it, or no VM starts. */
async function checkCa(home: Home): Promise<void> {
  const { key, certificate } = caFiles(home);
  const files = await Promise.all([key, certificate].map((path) => Deno.lstat(path).catch(() => undefined)));
  if (files.some(Boolean)) await openCa(home);
}

/** Error code of a profile whose image has not been built yet, which is not a failure. */
const NOT_BUILT = "image.missing";

/** Profiles that are broken or revoked, and profiles whose VMs have no assets to boot with. */
async function profileIssues({ home, standing }: IssueSources): Promise<string[]> {
  const profiles = await listProfiles(home);
  const issues = await Promise.all(profiles.map(async (each) => {
    if ("error" in each) return describe(each.error);
    return await requireAssets(home, each.profile).then(
      (assets) => standing.require(each.profile, bootFiles(assets).map(({ hash }) => hash)),
    ).then(
      // Deprecated ones boot, and say so.
      (notes) => notes,
      (error) => error instanceof SbxError && error.code === NOT_BUILT ? [] : describe(error),
    );
  }));
  return issues.flat();
}

/** Pinned OBOMs that are missing: their images boot, without evidence of their content. */
async function obomIssues(home: Home): Promise<string[]> {
  const profiles = (await listProfiles(home)).flatMap((each) => "profile" in each ? each.profile : []);
  const missing = await Promise.all(profiles.map((profile) => missingObom(home, profile)));
  return missing.flatMap((error) => error ? describe(error) : []);
}

/** VMs that failed, stand still, or lack something. */
function vmIssues(supervisor: Supervisor): string[] {
  return supervisor.list().flatMap(({ name, status, last_error }) =>
    last_error === undefined ? [] : [`VM "${name}" is ${status}: ${last_error}`]
  );
}

function describe(error: unknown): string[] {
  const { message, hint } = asSbxError(error, "a check");
  return [hint ? `${message} (${hint})` : message];
}

/**
 * Lists rules of profiles that pass TLS uninspected without effect, since
 * corp's rules read the content there.
 */
async function passthroughIssues(home: Home, store: CorpStore): Promise<string[]> {
  // Rules that cannot be read are issues of their own.
  const corp = await corpLayer(store).catch(() => undefined);
  if (!corp?.rules.length) return [];
  const issues: string[] = [];
  for (const each of await listProfiles(home)) {
    if ("error" in each) continue;
    const profile = await profileLayer(each.profile, store).catch(() => undefined);
    // The engine takes time to load, and few profiles pass a host.
    if (!profile?.rules.some(({ rewrite }) => rewrite?.some(({ path }) => path === "http.request.scheme"))) {
      continue;
    }
    const { compileLayers } = await import("../../policy/mod.ts");
    const { lintPolicy } = await import("../../policy/author/mod.ts");
    const lints = lintPolicy(compileLayers({ corp, profile })).filter(({ code }) => code === "passthrough");
    issues.push(
      ...lints.map(({ rule_id, message }) => `profile "${each.profile.id}": rule "${rule_id}": ${message}`),
    );
  }
  return issues;
}

/** Longest wait for the hashes of an image, in `ms`; they are computed once, until the files are written. */
const HASH_MS = timeLimit(1000);

/**
 * The files that VMs of a profile boot from now. Files that take longer to hash pass here: the next check has
 * their hashes, and every boot waits for them.
 *
 * @throws {SbxError} as `bootAssets`; `assets.mismatch`
 */
export async function requireAssets(home: Home, profile: Profile): Promise<Assets> {
  const assets = await bootAssets(home, profile, currentArch());
  await withDeadline(verifyAssets(assets), HASH_MS).catch((error) => {
    if (!(error instanceof SbxError) || error.code !== "status.timeout") throw error;
  });
  return assets;
}
