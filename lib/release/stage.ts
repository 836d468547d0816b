/**
 * Stages of releases: the machines that a release is for (docs/design/contracts/10-release.md §10,
 * "Selection").
 */
import { blake3 } from "../base/hash/mod.ts";
import type { ManifestRecord, Stage } from "./schema.ts";

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
