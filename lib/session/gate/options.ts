import type { DetectionIr } from "../../detection/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Policy } from "../../policy/mod.ts";
import type { ExportRoutes } from "./detector.ts";
import type { SessionNotice } from "./notice.ts";
import type { Recorder } from "./recorder.ts";

/** The parts that a gate is built from. */
export interface GateOptions {
  /** the session, as its events name it */
  session: {
    id: string;
    profile_id: string;
    profile_revision: string;
    /** user of the host whose VM it is */
    user_id?: string;
    /** labels of every event */
    labels?: Record<string, string>;
  };
  policy: Policy;
  detections: readonly DetectionIr[];
  exportRoutes?: ExportRoutes;
  recorder: Recorder;
  tell(notice: SessionNotice): void;
  /** work to wait for before an allowed event happens; never rejects */
  before?(event: Event): Promise<void> | undefined;
  /** an allowed event has ended, with its response if it had one */
  ended?(event: Event, response: unknown): void;
  /** replaces secrets by refs in all texts of a value, also split ones; the same value if it has none */
  scrubValue<T>(value: T): T;
}

/** Terms that accompany rules. */
export interface RuleTerms {
  exportRoutes?: ExportRoutes;
  /** absent: as before */
  profileRevision?: string;
}
