import { asSbxError } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import type { TurnNotice } from "./agent_turns.ts";
import type { SessionNotice } from "./gate/mod.ts";
import type { MachineInfo } from "./ipc/mod.ts";
import type { SessionPaths } from "./files/paths.ts";
import { writeState } from "./files/record.ts";
import type { ChainHeads } from "../ledger/mod.ts";

/** Reports of a session. */
export type Report = SessionNotice | MachineInfo | TurnNotice;
type Listener = (what: Report) => void;

/** A session's report about its machine: to the service that watches it, and on disk for the next service. */
export class SessionReport {
  readonly #paths: SessionPaths;
  readonly #listeners = new Set<Listener>();
  readonly #onHeads = new Set<() => void>();
  #heads?: ChainHeads;
  #info: MachineInfo = { state: "Booting", boot_stages: [], pid: Deno.pid };
  /** the last write of the state; the next one waits for it */
  #written = Promise.resolve();

  constructor(paths: SessionPaths) {
    this.#paths = paths;
  }

  get info(): MachineInfo {
    return this.#info;
  }

  /** The machine is gone, and its last state is set. */
  get hasEnded(): boolean {
    return hasEnded(this.#info);
  }

  /** Newest heads of the rows in the session's ledger; absent until it is open. */
  get heads(): ChainHeads | undefined {
    return this.#heads;
  }

  noteHeads(heads: ChainHeads): void {
    this.#heads = heads;
    for (const listener of this.#onHeads) listener();
  }

  /** @param listener called when there are newer heads @returns a function that stops the watching */
  watchHeads(listener: () => void): () => void {
    this.#onHeads.add(listener);
    return () => this.#onHeads.delete(listener);
  }

  /** @returns a function that stops the watching */
  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  set(change: Partial<MachineInfo>): void {
    this.note(change);
    this.tell(this.#info);
  }

  /** Reports a change, unless nothing differs. */
  change(change: Partial<MachineInfo>): void {
    const before: Partial<MachineInfo> = this.#info;
    if (Object.entries(change).some(([key, value]) => before[key as keyof MachineInfo] !== value)) {
      this.set(change);
    }
  }

  /** A change that the service after this one finds too. */
  keep(change: Partial<MachineInfo>): Promise<void> {
    this.set(change);
    return this.write();
  }

  /** Notes a change, reported with the next one. */
  note(change: Partial<MachineInfo>): void {
    this.#info = { ...this.#info, ...change };
  }

  tell(what: Report): void {
    for (const listener of this.#listeners) listener(what);
  }

  /** Writes the state for the service to find after this process has ended. A full disk delays nothing. */
  write(): Promise<void> {
    return this.#written = this.#written.then(() => writeState(this.#paths, this.#info)).catch((error) =>
      log.warn(asSbxError(error, `writing ${this.#paths.state}`).message)
    );
  }
}

/** The machine is gone: the state is its last one. */
export function hasEnded({ state }: Pick<MachineInfo, "state">): boolean {
  return state === "Suspended" || state === "Stopped" || state === "Defunct";
}
