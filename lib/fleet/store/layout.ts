/** Files of a fleet's store (docs/design/contracts/12-ledger.md §12). */
import { join } from "node:path";
import type { SegmentHeader } from "../segment/schema.ts";

/** Paths of a store. */
export function storePaths(dir: string) {
  return {
    machines: join(dir, "machines"),
    tokens: join(dir, "tokens"),
    segments: join(dir, "segments"),
    reports: join(dir, "reports"),
    problems: join(dir, "problems"),
    parts: join(dir, "parts"),
    /** bodies of uploads, until they are verified */
    incoming: join(dir, "incoming"),
  };
}

/** Folder of the segments of one session. */
export function sessionFolder(dir: string, machineId: string, sessionId: string): string {
  return join(storePaths(dir).segments, machineId, sessionId);
}

/** Name of a segment's file: where it begins. Two segments that begin at one position cannot both be kept. */
export function segmentName({ from }: Pick<SegmentHeader, "from">): string {
  return [from.events, from.outcomes, from.journal].map((at) => String(at).padStart(12, "0")).join("-") +
    ".seg";
}

/** Parses the name of a segment's file. */
export function positionOf(name: string): { events: number; outcomes: number; journal: number } | undefined {
  const match = /^(\d{12})-(\d{12})-(\d{12})\.seg$/.exec(name);
  if (!match) return undefined;
  return { events: Number(match[1]), outcomes: Number(match[2]), journal: Number(match[3]) };
}

/** File of a report. A machine has one of each kind, or of each kind and session: the last one counts. */
export function reportPath(
  dir: string,
  machineId: string,
  body: { kind: string; session_id?: string },
): string {
  const name = body.session_id === undefined ? body.kind : `${body.kind}-${body.session_id}`;
  return join(storePaths(dir).reports, machineId, `${name}.json`);
}
