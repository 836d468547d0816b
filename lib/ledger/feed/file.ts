/** Events in a file of JSON lines, which is rotated as the audit file of findings. */
import { fileURLToPath } from "node:url";
import { AuditSender } from "../sink/mod.ts";
import type { FeedSender } from "./feed.ts";
import type { FeedRecord } from "./record.ts";

export class FileSender implements FeedSender {
  readonly batch = 500;
  readonly #file: AuditSender;

  constructor(url: string, maxBytes?: number) {
    this.#file = new AuditSender({ path: fileURLToPath(url), ...(maxBytes !== undefined && { maxBytes }) });
  }

  send(records: readonly FeedRecord[]): Promise<number> {
    return this.#file.append(records.map(({ json }) => json));
  }
}
