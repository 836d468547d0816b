/** Probes for other problems of a home. Each takes at most 2 s, and a late one is an issue itself. */

import { asSbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { count } from "../../base/text/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { listProfiles } from "../../config/profile/mod.ts";
import { corpLayer, type FleetBundles, profileProblems, requireGood } from "../../home/mod.ts";
import { type Probe, withDeadline } from "./probe.ts";
import type { FleetShipping } from "../record/fleet_shipping.ts";
import type { Registry } from "../vm/registry.ts";
import type { Sessions } from "../record/sessions.ts";
import type { Templates } from "../vm/templates.ts";
import { type VmHealthSources, vmProbes } from "./vm_health.ts";

/** Longest that one probe may take, in `ms` (docs/design/contracts/02-http.md §2, "Status"). */
export const PROBE_MS = timeLimit(2000);

/** Parts of the service that the probes check. */
export interface HealthSources extends VmHealthSources {
  corp: CorpStore;
  registry: Registry;
  sessions: Sessions;
  templates: Templates;
  fleet: Pick<FleetShipping, "problems">;
  bundles: Pick<FleetBundles, "problems">;
}

/** Runs probes at once. @returns the issues in the order of the probes */
export async function runProbes(probes: readonly Probe[], ms = PROBE_MS): Promise<string[]> {
  const issues = await Promise.all(probes.map(async ([what, look]) => {
    try {
      return await withDeadline(look(), ms);
    } catch (error) {
      return [`${what}: ${asSbxError(error, "looking").message}`];
    }
  }));
  return issues.flat();
}

/** The probes of one home. */
export function healthProbes(sources: HealthSources, program = programFile()): Probe[] {
  const { home, corp, registry, sessions, templates, fleet, bundles } = sources;
  return [
    ["the program of this service", () => checkProgram(program)],
    ["the key of this machine", () => checkKey(home)],
    ["rules and packs of corp", () => checkCorp(corp)],
    ["rules and packs of profiles", () => checkProfiles(home)],
    ["templates", async () => (await templates.status()).problems],
    ["the collecting server", () => checkCollected(sessions, registry)],
    ["the fleet's collector", () => Promise.resolve(fleet.problems())],
    ["the fleet's bundle", () => Promise.resolve(bundles.problems())],
    ...vmProbes(sources),
  ];
}

/** The file that this service runs from: the program, or its source. */
function programFile(): string {
  return Deno.mainModule.startsWith("file:") ? new URL(Deno.mainModule).pathname : Deno.execPath();
}

async function checkProgram(path: string): Promise<string[]> {
  const isThere = await Deno.stat(path).then(() => true, () => false);
  return isThere ? [] : [
    `the program of this service, ${path}, is gone, so it can start no VM ` +
    "(install sbx again, then sbx stop and sbx start)",
  ];
}

async function checkKey(home: Home): Promise<string[]> {
  const { findSigningKey } = await import("../../release/signing/mod.ts");
  try {
    await findSigningKey(home);
    return [];
  } catch (error) {
    const { message, hint } = asSbxError(error, "reading the key of this machine");
    return [`records are not signed: ${message}${hint ? ` (${hint})` : ""}`];
  }
}

async function checkCorp(corp: CorpStore): Promise<string[]> {
  try {
    const layer = await corpLayer(corp);
    await requireGood({ corp: layer, profile: { rules: [] } });
    return [];
  } catch (error) {
    const { code, message } = asSbxError(error, "reading corp's rules");
    // An unreadable corp.toml has its own issue.
    return code === "corp.closed" ? [] : message.split("\n").map((line) => `corp: ${line}`);
  }
}

async function checkProfiles(home: Home): Promise<string[]> {
  const profiles = (await listProfiles(home)).flatMap((each) => "error" in each ? [] : [each.profile]);
  const problems = await Promise.all(
    profiles.map(async (profile) =>
      (await profileProblems(profile)).map((line) =>
        `profile "${profile.id}": ${line} (VMs of it do not start; sbx policy lint shows it)`
      )
    ),
  );
  return problems.flat();
}

async function checkCollected(sessions: Sessions, registry: Registry): Promise<string[]> {
  const waiting = await sessions.uncollected(new Set(registry.alive().map(({ record }) => record.id)));
  return waiting === 0 ? [] : [
    `${count(waiting, "ended session")} ${
      waiting === 1 ? "is" : "are"
    } not collected yet: the collecting server ` +
    "does not take their records (sbx corp shows it; they are sent once it does)",
  ];
}
