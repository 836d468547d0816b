/**
 * Corp's limits on use of this host: the version of sbx, and the profiles of VMs
 * (docs/design/contracts/03-settings.md §3, "Corp limits").
 */
import { SbxError } from "../../base/error/mod.ts";
import { isCompatible } from "../../base/semver/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";

type Corp = Pick<CorpStore, "state" | "path">;

/** Refuses to boot with an sbx that is older than corp requires. @throws {SbxError} `corp.version` (409) */
export function requireCorpVersion({ state, path }: Corp): void {
  const range = "config" in state ? state.config.file.corp.require?.sbx : undefined;
  if (range === undefined || isCompatible(range.replace(/^>=\s*/, ""))) return;
  throw new SbxError("corp.version", `corp requires sbx ${range} on this host; this is sbx ${VERSION}`, {
    hint: `no VM starts before sbx is updated; ${path} says so`,
  });
}

/** Refuses profiles that corp does not list. @throws {SbxError} `corp.profile` (403) */
export function requireCorpProfile({ state, path }: Corp, id: string): void {
  const profiles = "config" in state ? state.config.file.corp.limits?.profiles : undefined;
  if (profiles === undefined || profiles.includes(id)) return;
  throw new SbxError("corp.profile", `corp does not allow VMs of profile "${id}"`, {
    hint: profiles.length > 0 ? `${path} allows ${profiles.join(", ")}` : `${path} allows none`,
  });
}
