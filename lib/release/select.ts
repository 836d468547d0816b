/**
 * The release that a machine may install: its version, and its stage (docs/design/contracts/10-release.md
 * §10, "Selection").
 */
import { SbxError } from "../base/error/mod.ts";
import { compareSemVer, isCompatible } from "../base/semver/mod.ts";
import { VERSION } from "../base/version/mod.ts";
import { type ManifestRecord, type Stage, type Status, STATUSES } from "./schema.ts";
import { blake3 } from "../base/hash/mod.ts";

/** Tests whether a record is for this version of sbx; both bounds are inclusive. */
export function isForSbx(
  { min_sbx_version, max_sbx_version }: Pick<ManifestRecord, "min_sbx_version" | "max_sbx_version">,
  sbx = VERSION,
): boolean {
  return isCompatible(min_sbx_version, sbx) &&
    (max_sbx_version === undefined || compareSemVer(sbx, max_sbx_version) <= 0);
}

/** Rank of a status: 0 is `current`. */
export function rankOf(status: Status): number {
  return STATUSES.indexOf(status);
}

/**
 * Orders the records that may be installed, the best one first: without revoked and incompatible ones, by
 * status, then by version (docs/design/contracts/10-release.md §10, "Selection").
 */
export function selectable(records: readonly ManifestRecord[], sbx = VERSION): ManifestRecord[] {
  return records.filter((record) => record.status !== "revoked" && isForSbx(record, sbx)).toSorted((a, b) =>
    rankOf(a.status) - rankOf(b.status) || compareSemVer(b.version, a.version)
  );
}

/**
 * Selects the record of a channel to install.
 *
 * @throws {SbxError} `release.not_found`: every record is revoked or for another sbx
 */
export function selectRecord(
  channel: string,
  records: readonly ManifestRecord[],
  sbx = VERSION,
): ManifestRecord {
  const [best] = selectable(records, sbx);
  if (best) return best;
  const revoked = records.filter(({ status }) => status === "revoked").length;
  throw new SbxError(
    "release.not_found",
    `channel "${channel}" has no release for sbx ${sbx}: ${revoked} of its ${records.length} are revoked, ` +
      "the others need another version",
    { hint: "the installed version stays; ask the publisher of the channel" },
  );
}

/** Highest version of some records. */
export function highestVersion(records: readonly Pick<ManifestRecord, "version">[]): string | undefined {
  return records.map(({ version }) => version).toSorted(compareSemVer).at(-1);
}

/** A machine as stages see it. */
export interface StagedMachine {
  /** of its key */
  id: string;
  labels: readonly string[];
}

/** Places of machines: a percent has a hundred. */
const PLACES = 10_000;

/**
 * Position of a machine in the stages of a channel, from 0 to below 100. It never changes, so that a growing
 * stage keeps its machines; and it differs by channel, so that the first machines differ too.
 */
export function placeOf(machineId: string, channel: string): number {
  const hash = blake3(`sbx stage\n${channel}\n${machineId}`);
  return Number(BigInt(`0x${hash.slice(0, 16)}`) % BigInt(PLACES)) * 100 / PLACES;
}

/**
 * Tests whether a release is for a machine.
 *
 * @param machine absent: one without a key, which only a stage of all machines includes
 */
export function isStagedFor(
  { stage }: Pick<ManifestRecord, "stage">,
  channel: string,
  machine: StagedMachine | undefined,
): boolean {
  if (!stage) return true;
  const { percent, labels } = stage;
  if (labels && !labels.some((label) => machine?.labels.includes(label))) return false;
  return percent === 100 || machine !== undefined && placeOf(machine.id, channel) < percent;
}

/** Describes a stage, such as `10 % of canary, build`. */
export function describeStage({ percent, labels }: Stage): string {
  return `${percent} %${labels ? ` of ${labels.join(", ")}` : ""}`;
}
