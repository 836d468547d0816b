/** Collectors: where a machine's segments and reports are delivered. The simplest one is a folder. */
import type { ChainHeads } from "../../ledger/mod.ts";
import { dirname, join } from "node:path";
import { writeAtomic } from "../../base/home/mod.ts";
import { keepFile, keepFirst, reportPath, segmentName, sessionFolder } from "../store.ts";
import { headerOf } from "../segment/mod.ts";
import { type LogAnswer, StoreLog } from "../log/mod.ts";
import { reportOf, slotOf } from "./report.ts";

/** The last rows of a session that a collector has. */
export type Position = ChainHeads;

/** A collector's answer to a segment. */
export type Receipt =
  /** stored, by this call or an earlier one */
  | { kept: true }
  /** not stored: it does not begin at the collector's position */
  | { kept: false; position: Position };

/** A collector of segments. */
export interface SegmentTarget {
  /** its address without credentials, for messages */
  readonly name: string;
  /**
   * Delivers a segment; settles once it is kept.
   *
   * @throws {SbxError} `fleet.unavailable`; `fleet.denied`: it refuses this machine;
   * `fleet.refused`: it refuses this segment
   */
  send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt>;
  /** Delivers a signed report. @throws as `send` */
  report(envelope: string): Promise<void>;
  /**
   * Reads the log of the collector's store; `undefined`: it has none.
   * @param seen the state that was seen last
   */
  log?(seen: { size: number; root: string }): Promise<LogAnswer | undefined>;
  /** Closes connections that are kept open; a later call opens new ones. */
  close?(): Promise<void>;
}

/** A folder with the layout of a receiver's store: a share, or a disk that is carried to the receiver. */
export class FolderTarget implements SegmentTarget {
  readonly name: string;

  constructor(readonly dir: string) {
    this.name = dir;
  }

  async send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt> {
    const header = headerOf(segment);
    const folder = sessionFolder(this.dir, header.machine_id, header.session_id);
    const path = join(folder, segmentName(header));
    if (await keepFile(path, segment)) return { kept: true };
    // Another segment begins here: the cursor was lost after it. It may lack the last of these rows.
    return { kept: false, position: headerOf(await Deno.readFile(path)).to };
  }

  async report(envelope: string): Promise<void> {
    const { machine_id, body } = reportOf(envelope);
    const path = reportPath(this.dir, machine_id, { kind: body.kind, slot: slotOf(body) });
    if (body.kind === "register") {
      // Never replaced: the chain of the register then shows a machine that rewrites it.
      await keepFile(path, new TextEncoder().encode(envelope));
      return;
    }
    if (body.kind === "alive") await keepFirst(this.dir, machine_id, new TextEncoder().encode(envelope));
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, envelope);
  }

  async log(seen: { size: number; root: string }): Promise<LogAnswer | undefined> {
    const answer = await StoreLog.of(this.dir).answer(seen);
    return answer.size === 0 && seen.size === 0 ? undefined : answer;
  }
}
