/**
 * Incoming bodies. None is read before its head proves an enrolled machine; each goes to the disk, not into
 * memory, within a time limit and a limit on concurrent bodies.
 */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { Blake3 } from "../../base/hash/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { Upload } from "../ship/mod.ts";
import { storePaths } from "../store/mod.ts";

/** Concurrent bodies, of all machines and of one (docs/design/contracts/14-limits.md §14). */
const UPLOADS_MAX = 64, UPLOADS_PER_MACHINE_MAX = 2;
/** Bodies that are in memory, to be verified. */
const OPEN_MAX = 2;
/** Time for a body: this, and a second for each `BYTES_PER_SECOND`. */
const BODY_MS = 30_000;
const BYTES_PER_SECOND_MIN = 32 * 1024;
/** Age in `ms` at which a killed receiver's file is removed. */
const ABANDONED_MS = 6 * 3_600_000;

/** Files of bodies, and the places for them. */
export class Intake {
  readonly #dir: string;
  readonly #ofMachine = new Map<string, number>();
  #count = 0;
  #open = 0;
  readonly #waiting: (() => void)[] = [];

  private constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Makes the folder, and removes leftovers of killed receivers.
   *
   * @param store the store's folder
   */
  static async open(store: string): Promise<Intake> {
    const intake = new Intake(storePaths(store).incoming);
    await Deno.mkdir(intake.#dir, { recursive: true, mode: 0o700 });
    await intake.#clear();
    return intake;
  }

  async #clear(): Promise<void> {
    for await (const { name } of Deno.readDir(this.#dir)) {
      const path = join(this.#dir, name);
      const { mtime } = await Deno.stat(path).catch(() => ({ mtime: null }));
      if (mtime && Date.now() - mtime.getTime() > ABANDONED_MS) await Deno.remove(path).catch(() => {});
    }
  }

  /**
   * Receives a body, and passes it to `work`.
   *
   * @throws {SbxError} `fleet.busy`; `request.too_large`; `fleet.upload.invalid`: other bytes than the head says; `request.timeout`;
   * `fleet.store.unavailable`
   */
  async take<T>(
    upload: Upload,
    body: ReadableStream<Uint8Array> | null,
    max: number,
    work: (bytes: Uint8Array) => Promise<T>,
  ): Promise<T> {
    if (upload.length > max) {
      throw new SbxError("request.too_large", `the body has more than ${max} bytes`);
    }
    const { machine_id } = upload;
    const mine = this.#ofMachine.get(machine_id) ?? 0;
    if (this.#count >= UPLOADS_MAX || mine >= UPLOADS_PER_MACHINE_MAX) {
      throw new SbxError("fleet.busy", "other bodies come at this moment", { hint: "try again in a minute" });
    }
    this.#count++;
    this.#ofMachine.set(machine_id, mine + 1);
    const path = join(this.#dir, crypto.randomUUID());
    try {
      await this.#receive(path, upload, body);
      return await this.#inTurn(async () => work(await Deno.readFile(path)));
    } finally {
      this.#count--;
      const left = this.#ofMachine.get(machine_id)! - 1;
      if (left > 0) this.#ofMachine.set(machine_id, left);
      else this.#ofMachine.delete(machine_id);
      await Deno.remove(path).catch(() => {});
    }
  }

  async #receive(path: string, upload: Upload, body: ReadableStream<Uint8Array> | null): Promise<void> {
    const hash = new Blake3();
    let length = 0;
    const reader = body?.getReader();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      reader?.cancel().catch(() => {});
    }, timeLimit(BODY_MS + upload.length / BYTES_PER_SECOND_MIN * 1000));
    try {
      using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 }).catch(unavailable);
      while (reader) {
        const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true }));
        if (done) break;
        length += value!.length;
        if (length > upload.length) break;
        hash.update(value!);
        await writeAll(file, value!).catch(unavailable);
      }
    } finally {
      clearTimeout(timer);
      await reader?.cancel().catch(() => {});
    }
    if (isLate) throw new SbxError("request.timeout", "the body came too slowly");
    if (length === upload.length && hash.digest() === upload.hash) return;
    throw new SbxError("fleet.upload.invalid", "the body is not the one that its head announced", {
      hint: "the machine sends it again",
    });
  }

  /** Runs work while few others run. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#open >= OPEN_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#open++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#open--;
    }
  }
}

function unavailable(cause: unknown): never {
  throw new SbxError("fleet.store.unavailable", "the store cannot keep what comes in", {
    cause,
    hint: "free some space, or check the permissions of the folder; machines send again what was not kept",
  });
}
