/** One part of a longer work. */
export interface Stage {
  name: string;
  /** how long it takes beside the others, in any unit */
  weight: number;
}

/** What a longer work tells of itself. */
export interface ProgressSink {
  /** The work has come to this stage; `total` units will be counted in it, if it can count. */
  stage(name: string, total?: number): void;
  /** So many more units of the stage are done. */
  advance(units: number): void;
}

/** For callers that show nothing. */
export const silent: ProgressSink = { stage() {}, advance() {} };
