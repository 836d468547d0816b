/** One part of long-running work. */
export interface Stage {
  name: string;
  /** duration relative to the other stages, in any unit */
  weight: number;
}

/** Receiver of progress reports. */
export interface ProgressSink {
  /** Enters a stage; `total` is its number of units, 0 for a stage without a count. */
  stage(name: string, total?: number): void;
  /** Adds finished units to the current stage. */
  advance(units: number): void;
}

/** Sink that shows nothing. */
export const silent: ProgressSink = { stage() {}, advance() {} };
