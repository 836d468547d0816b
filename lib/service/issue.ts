import { resolveAssets } from "../asset/mod.ts";
import { caFiles, openCa } from "../ca/mod.ts";
import { type CorpStore, corpSummary } from "../corp/mod.ts";
import { CredentialStore, storePath } from "../credential/mod.ts";
import { asSbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { bootAssets, currentArch, listProfiles } from "../profile/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import type { Supervisor } from "./mod.ts";
import { findTools } from "../vm/mod.ts";

/** What the service is made over, as far as something can be wrong with it. */
interface Parts {
  home: Home;
  supervisor: Supervisor;
  settings: SettingsStore;
  corp: CorpStore;
}

/** Everything that is not as it should be: what keeps VMs from starting, what does not hold, and VMs that are not well. */
export async function issuesOf({ home, supervisor, settings, corp }: Parts): Promise<string[]> {
  const checks: (() => unknown)[] = [
    findTools,
    () => resolveAssets(home, currentArch()),
    () => checkCa(home),
    () => new CredentialStore(storePath(home)).list(),
  ];
  const failed = await Promise.all(checks.map((check) => Promise.resolve().then(check).then(() => [], told)));
  // What every profile lacks is one issue.
  return [
    ...new Set([
      ...brokenCorp(corp),
      ...brokenSettings(settings),
      ...supervisor.governance.problems(),
      ...failed.flat(),
      ...await brokenProfiles(home),
      ...troubledVms(supervisor),
    ]),
  ];
}

/** A corp.toml that does not hold comes first: what the administrator meant is not what is in force. */
function brokenCorp(corp: CorpStore): string[] {
  const { state } = corp;
  return "error" in state ? [`${corpSummary(corp)}: ${state.error.message.split("\n")[0]}`] : [];
}

/** A settings.toml that cannot be read, and what of it does not hold. */
function brokenSettings({ resolved }: SettingsStore): string[] {
  const errors = resolved.issues.filter(({ severity }) => severity === "error");
  return errors.map(({ id, message }) => `${id}: ${message.replaceAll("\n", " ")}`);
}

/** The CA is made with the first VM; one that is there must be its user's alone, or no VM starts. */
async function checkCa(home: Home): Promise<void> {
  const { key, certificate } = caFiles(home);
  const there = await Promise.all([key, certificate].map((path) => Deno.lstat(path).catch(() => undefined)));
  if (there.some(Boolean)) await openCa(home);
}

/** Profiles that are none, and those whose VMs have nothing to boot with. */
async function brokenProfiles(home: Home): Promise<string[]> {
  const listed = await listProfiles(home);
  const problems = await Promise.all(listed.map(async (each) => {
    if ("error" in each) return told(each.error);
    return await bootAssets(home, each.profile, currentArch()).then(() => [], told);
  }));
  return problems.flat();
}

/** VMs that ended as they should not have, that stand still, or that lack something. */
function troubledVms(supervisor: Supervisor): string[] {
  return supervisor.list().flatMap(({ name, status, last_error }) =>
    last_error === undefined ? [] : [`VM "${name}" is ${status}: ${last_error}`]
  );
}

function told(error: unknown): string[] {
  const { message, hint } = asSbxError(error, "a check");
  return [hint ? `${message} (${hint})` : message];
}
