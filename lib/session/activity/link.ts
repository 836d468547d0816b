/** Parts of a session that the report of a guest needs. */
/** Host end of the guest that reports. */
export interface ActivityLink {
  /** settles when the guest has booted; rejects when it is lost */
  booted(): Promise<unknown>;
  /** gives the guest a new key for its report */
  askActivity(): Promise<void>;
  /** whether it is the last key; it is good once */
  admitsActivity(key: string): boolean;
  /** the guest has ended, or was left for a while */
  readonly isOver: boolean;
}

/** Who wants to know of a report. */
export interface ActivityListener {
  /** @param why nothing is reported; `undefined` once it is */
  onProblem(why?: string): void;
  /** a program of the guest listens on a port */
  onListen(port: number): void;
}

/** A report that was asked for. */
export interface Report {
  /** when it began, as unix `ms` */
  began?: number;
  link: ActivityLink;
  started: PromiseWithResolvers<void>;
  /** resolves with the reason for its end */
  ended: PromiseWithResolvers<string>;
  /** the last gap it reported, after which it may end */
  gap?: { why: string; at: number };
}
