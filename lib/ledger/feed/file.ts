/** Events in a file of JSON lines, which is rotated as the audit file of findings. */
import { fileURLToPath } from "node:url";
import { ignore } from "../../base/error/mod.ts";
import { AuditSender } from "../sink/mod.ts";
import type { FeedSender } from "./feed.ts";
import { type FeedRecord, joinBytes } from "./record.ts";

/** Events of one write, which is on the disk before the next: 8 MB at most. */
const BATCH = 1000;

export class FileSender implements FeedSender {
  readonly batch = BATCH;
  readonly #file: AuditSender;
  /** memory of the longest write: new memory would cost as much as writing */
  #space = new Uint8Array(0);
  /** ends with the last write */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(url: string, maxBytes?: number) {
    this.#file = new AuditSender({ path: fileURLToPath(url), ...(maxBytes !== undefined && { maxBytes }) });
  }

  /** One write after the other, also where a test event comes meanwhile: they share their memory. */
  send(records: readonly FeedRecord[]): Promise<number> {
    const sending = this.#tail.then(() => this.#send(records));
    this.#tail = sending.catch(ignore("its caller has the error"));
    return sending;
  }

  #send(records: readonly FeedRecord[]): Promise<number> {
    const lines = joinBytes(records.flatMap(({ json }) => [json, "\n"]), this.#space);
    if (lines.length > this.#space.length) this.#space = lines;
    return this.#file.append(lines);
  }
}
