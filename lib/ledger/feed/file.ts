/** Events in a file of JSON lines, which is rotated as the audit file of findings. */
import { fileURLToPath } from "node:url";
import { ignore } from "../../base/error/mod.ts";
import { AuditSender } from "../sink/mod.ts";
import type { FeedSender } from "./feed.ts";
import { type FeedRecord, joinBytes } from "./record.ts";

/** Events of one write, which is on the disk before the next: 16 MB at most. */
const BATCH = 2000;

/** Most parts that are written one by one: a system call costs as much as joining 100 KB. */
const PARTS_MAX = 16;

const NEWLINE = 10;

export class FileSender implements FeedSender {
  readonly batch = BATCH;
  readonly #file: AuditSender;
  /** ends with the last write */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(url: string, maxBytes?: number) {
    this.#file = new AuditSender({ path: fileURLToPath(url), ...(maxBytes !== undefined && { maxBytes }) });
  }

  /** One write after the other, also where a test event comes meanwhile. */
  send(records: readonly FeedRecord[]): Promise<number> {
    const sending = this.#tail.then(() => this.#file.append(linesOf(records)));
    this.#tail = sending.catch(ignore("its caller has the error"));
    return sending;
  }
}

const LINE_END = new Uint8Array([NEWLINE]);

/** Lines of records, in as few parts as they are in: copied records are lines in one memory already. */
function linesOf(records: readonly FeedRecord[]): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < records.length;) {
    const { json } = records[at++];
    const memory = new Uint8Array(json.buffer);
    const start = json.byteOffset;
    let end = start + json.length;
    if (memory[end] !== NEWLINE) {
      parts.push(json, LINE_END);
      continue;
    }
    for (end++; at < records.length; at++) {
      const next = records[at].json;
      const nextEnd = next.byteOffset + next.length;
      if (next.buffer !== json.buffer || next.byteOffset !== end || memory[nextEnd] !== NEWLINE) break;
      end = nextEnd + 1;
    }
    parts.push(memory.subarray(start, end));
  }
  return parts.length > PARTS_MAX ? [joinBytes(parts)] : parts;
}
