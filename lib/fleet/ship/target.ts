/** Where segments go. */
import type { ChainHeads } from "../../ledger/mod.ts";

/** A collector's position in a session: `undefined` if it does not know. */
export type Position = ChainHeads;

/** A collector's answer to a segment. */
export type Receipt =
  /** it is kept, now or since before */
  | { kept: true }
  /** it begins away from the collector's position; nothing of it was kept */
  | { kept: false; position: Position };

/** A collector of segments. */
export interface SegmentTarget {
  /** its address without credentials, for messages */
  readonly name: string;
  /** Delivers a segment; settles once it is kept. @throws {SbxError} `fleet.unavailable`, `fleet.refused` */
  send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt>;
  /** Delivers a signed report. @throws as `send` */
  report(envelope: string): Promise<void>;
  /** Closes connections that are kept open; a later call opens new ones. */
  close?(): Promise<void>;
}
