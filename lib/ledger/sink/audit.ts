import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { asSbxError, ignore } from "../../base/error/mod.ts";
import { DeliveryError, type FindingRecord, lineOf, type Sender } from "./record.ts";

/** Default maximum `bytes` of the audit file, and number of rotated files. */
const AUDIT_BYTES = 16 * 1024 * 1024;
const AUDIT_FILES = 8;

/** Bits of a mode: others may write; in a folder, they may only remove files of their own. */
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

export interface AuditOptions {
  /**
   * path of the current file, such as `findings.jsonl`; rotated files are
   * `findings.jsonl.1` (newest), `.2`, …
   */
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
    return this.append([new TextEncoder().encode(records.map((record) => `${lineOf(record)}\n`).join(""))]);
  }

  /** Appends lines, which may be in several parts. @returns 0: a file rejects none @throws {DeliveryError} */
  async append(lines: readonly Uint8Array[]): Promise<number> {
    try {
      await this.#append(lines);
    } catch (error) {
      if (error instanceof DeliveryError) throw error;
      throw new DeliveryError(asSbxError(error, `writing ${this.options.path}`).message);
    }
    return 0;
  }

  async #append(lines: readonly Uint8Array[]): Promise<void> {
    const { path, maxBytes = AUDIT_BYTES } = this.options;
    await requireOwnFolder(dirname(path));
    const size = await Deno.lstat(path).then(({ size }) => size, () => 0);
    const length = lines.reduce((sum, part) => sum + part.length, 0);
    if (size > 0 && size + length > maxBytes) await this.#rotate();
    const file = await openOwn(path);
    try {
      const before = (await file.stat()).size;
      try {
        for (const part of lines) {
          for (let at = 0; at < part.length;) at += (await file.write(part.subarray(at))).bytesWritten;
        }
        await file.datasync();
      } catch (error) {
        // A partial line would corrupt the next one; these records are sent again.
        await file.truncate(before).catch(ignore("the failure to write says more"));
        throw error;
      }
    } finally {
      await file.close();
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

/** Opens a file to append to, and makes it; never through a link, which another user may have left there. */
async function openOwn(path: string): Promise<FileHandle> {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;
  const file = await open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600)
    .catch((cause) => {
      if ((cause as { code?: string }).code !== "ELOOP") throw cause;
      throw new DeliveryError(`${path} is a link, and no link is followed`);
    });
  try {
    const status = await file.stat();
    if (!status.isFile()) throw new DeliveryError(`${path} is not a file`);
    if (status.uid !== Deno.uid() || status.nlink > 1 || (status.mode & OTHERS_WRITE) !== 0) {
      throw new DeliveryError(`${path} is another user's, or others may write it`);
    }
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * Makes the folder where it is missing.
 * @throws {DeliveryError} other users may take a file out of it, or put another one there
 */
async function requireOwnFolder(path: string): Promise<void> {
  const { uid, mode } = await Deno.stat(path).catch(async (error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    return await Deno.stat(path);
  });
  const isOwn = uid === Deno.uid() || uid === 0;
  const isShared = ((mode ?? 0) & OTHERS_WRITE) !== 0 && ((mode ?? 0) & STICKY) === 0;
  if (!isOwn || isShared) {
    throw new DeliveryError(
      `the folder ${path} is another user's, or others may write it: chmod go-w ${path}`,
    );
  }
}
