/**
 * Probes for problems of a home and of its VMs. Each takes at most 6 s; one that is late is itself an issue.
 */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { count } from "../../base/text/mod.ts";
import { fairDelay, timeLimit } from "../../base/time/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { bootAssets, listProfiles, loadProfile } from "../../config/profile/mod.ts";
import { corpLayer, type FleetBundles, profileProblems, requireGood } from "../../home/mod.ts";
import type { EventFeeds } from "../record/event_feed.ts";
import type { FleetShipping } from "../record/fleet_shipping.ts";
import type { RecordRoom } from "../record/room.ts";
import type { Witnesses } from "../record/witness.ts";
import type { Registry } from "../vm/registry.ts";
import type { Sessions } from "../record/sessions.ts";
import type { Templates } from "../vm/templates.ts";
import type { ReleaseStanding } from "../contract/publisher_status.ts";
import { isAlive, type Vm } from "../vm/vm.ts";

/** Longest that one probe may take, in `ms` (docs/design/contracts/02-http.md §2, "Status"). */
export const PROBE_MS = timeLimit(6000);

/** Parts of the service that the probes check. */
export interface HealthSources extends VmHealthSources {
  corp: CorpStore;
  registry: Registry;
  sessions: Sessions;
  templates: Templates;
  fleet: Pick<FleetShipping, "problems">;
  feeds: Pick<EventFeeds, "problems">;
  bundles: Pick<FleetBundles, "problems">;
  room: Pick<RecordRoom, "problems">;
  witnesses: Pick<Witnesses, "problems">;
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
  const { home, corp, registry, sessions, templates, fleet, feeds, bundles, room, witnesses } = sources;
  return [
    ["the program of this service", () => checkProgram(program)],
    ["the key of this machine", () => checkKey(home)],
    ["rules and packs of corp", () => checkCorp(corp)],
    ["rules and packs of profiles", () => checkProfiles(home)],
    ["templates", async () => (await templates.status()).problems],
    ["the collecting server", () => checkCollected(sessions, registry)],
    ["the fleet's collector", () => Promise.resolve(fleet.problems())],
    ["the sinks of events", () => Promise.resolve(feeds.problems())],
    ["the fleet's bundle", () => Promise.resolve(bundles.problems())],
    ["the room of records", () => Promise.resolve(room.problems())],
    ["the ends of records", () => witnesses.problems()],
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

/** A probe: the part it checks, and its issues, one line each. */
export type Probe = [what: string, look: () => Promise<string[]>];

/** Waits for a probe of the service's health, but no longer than `ms`. @throws {SbxError} `status.timeout` */
export function withDeadline<T>(probe: Promise<T>, ms: number): Promise<T> {
  const late = fairDelay(ms).then(() => {
    throw new SbxError("status.timeout", `no answer within ${ms / 1000} s`);
  });
  return Promise.race([probe, late]);
}

/**
 * Longest wait for a VM's process, in `ms`: on a busy host one that has just booted takes more than a second.
 */
const ANSWER_MS = timeLimit(5000);
/**
 * Age up to which a gap is an issue, in `ms`: nothing mends one (docs/design/contracts/02-http.md §2,
 * "Status").
 */
export const GAP_RECENT_MS = 3600_000;

/** Parts of the service that these probes check. */
interface VmHealthSources {
  home: Home;
  registry: Pick<Registry, "all">;
  standing: Pick<ReleaseStanding, "notesOf">;
}

/** The probes of the VMs of one home. */
export function vmProbes({ home, registry, standing }: VmHealthSources): Probe[] {
  return registry.all().filter(({ damaged, state }) => !damaged && state.state !== "Booting")
    .flatMap((vm): Probe[] => {
      const { record, state } = vm;
      const what = (part: string) => `${part} of VM "${record.name}"`;
      const hasMachine = isAlive(state) || state.state === "Suspended";
      return [
        ...isAlive(state) ? [[what("the process"), () => checkProcess(vm)] satisfies Probe] : [],
        ...hasMachine
          ? [
            [what("the image"), () => checkImage(home, vm)],
            [what("the release"), async () => (await standing.notesOf(vm)).map((note) => issueOf(vm, note))],
            [what("the record"), () => checkGaps(vm)],
          ] satisfies Probe[]
          : [],
      ];
    });
}

async function checkProcess({ record, state, process }: Vm): Promise<string[]> {
  return await withDeadline(process.call({ t: "Info" }), ANSWER_MS).then(
    () => [],
    () => [
      `VM "${record.name}": its process (pid ${state.pid}) does not answer, so nothing reaches the VM ` +
      `(sbx stop ${record.name}, or end that process)`,
    ],
  );
}

/** Files of an image. */
const PARTS = ["kernel", "initrd", "rootfs", "layer"] as const;

/** A machine keeps the image that it has booted, also when a newer one was installed since. */
async function checkImage(home: Home, { record, state }: Vm): Promise<string[]> {
  const { name, profile_id, assets: own } = record;
  // A profile without an image is an issue of its own.
  const now = await loadProfile(home, profile_id).then((profile) => bootAssets(home, profile, own.arch))
    .catch(() => undefined);
  const isSame = now === undefined ||
    PARTS.every((part) =>
      now[part]?.path === own[part] || Object.values(own.hashes ?? {}).includes(now[part]?.hash ?? "")
    );
  if (isSame) return [];
  const does = state.state === "Suspended" ? "was suspended with" : "runs";
  return [
    `VM "${name}" ${does} image ${own.version}; its profile boots ${now.version} now ` +
    `(sbx stop ${name}, then sbx start ${name})`,
  ];
}

/** Programs are not recorded during a gap. The reason is a guest's text, and stays in the finding. */
async function checkGaps({ record, paths }: Vm, now = Date.now()): Promise<string[]> {
  const { readLastGap } = await import("../../ledger/read/mod.ts");
  const at = await Deno.lstat(paths.ledger).then(() => readLastGap(paths.ledger), () => undefined);
  return at === undefined || now - at > GAP_RECENT_MS ? [] : [
    `VM "${record.name}": what its programs did is missing in its record at ${
      new Date(at).toISOString().slice(0, 19)
    }Z (sbx findings ${record.name} shows why)`,
  ];
}

function issueOf({ record }: Vm, note: string): string {
  return `VM "${record.name}": ${note}`;
}
