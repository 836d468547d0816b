import { dirname } from "node:path";
import { asSbxError, ignore } from "../../base/error/mod.ts";
import { DeliveryError, type FindingRecord, lineOf, type Sender } from "./record.ts";

/** Default maximum `bytes` of the audit file, and number of rotated files. */
const AUDIT_BYTES = 16 * 1024 * 1024;
const AUDIT_FILES = 8;

export interface AuditOptions {
  /** path of the current file, such as `findings.jsonl`; rotated files are `findings.jsonl.1` (newest), `.2`, … */
  path: string;
  maxBytes?: number;
  /** number of rotated files to keep */
  keep?: number;
}

/** Appends findings to a JSON Lines file and rotates it. */
export class AuditSender implements Sender {
  readonly batch = 100;

  constructor(readonly options: AuditOptions) {}

  send(records: readonly FindingRecord[]): Promise<number> {
    return this.append(records.map(lineOf));
  }

  /** Appends lines. @returns 0: a file rejects none @throws {DeliveryError} */
  async append(lines: readonly string[]): Promise<number> {
    try {
      await this.#append(lines.map((line) => `${line}\n`).join(""));
    } catch (error) {
      throw new DeliveryError(asSbxError(error, `writing ${this.options.path}`).message);
    }
    return 0;
  }

  async #append(text: string): Promise<void> {
    const { path, maxBytes = AUDIT_BYTES } = this.options;
    const bytes = new TextEncoder().encode(text);
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const size = await Deno.stat(path).then(({ size }) => size, () => 0);
    if (size > 0 && size + bytes.length > maxBytes) await this.#rotate();
    using file = await Deno.open(path, { create: true, append: true, mode: 0o600 });
    const before = (await file.stat()).size;
    try {
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
      await file.syncData();
    } catch (error) {
      // A partial line would corrupt the next one; these records are sent again.
      await file.truncate(before).catch(ignore("the failure to write says more"));
      throw error;
    }
  }

  async #rotate(): Promise<void> {
    const { path, keep = AUDIT_FILES } = this.options;
    for (let number = keep; number > 0; number--) {
      const from = number === 1 ? path : `${path}.${number - 1}`;
      await Deno.rename(from, `${path}.${number}`).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
    }
  }
}
