/**
 * The host's operations on files of a VM, decided and recorded (docs/design/contracts/02-http.md §2,
 * "Files"): by the VM's process, or by this service without one.
 */
import { asSbxError, ignore } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import {
  type Contract,
  type FileDecision,
  type FileRequest,
  type HostFile,
  readContract,
} from "../../session/mod.ts";
import type { StillRecord } from "../../session/offline/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { companionContract } from "../vm/mcp_companions.ts";
import { corpLayer, ledgerOf } from "../../home/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";
import type { Sessions } from "./sessions.ts";
import type { Witnesses } from "./witness.ts";
import type { ProcessNotice } from "../notice.ts";
import { isAlive, type Vm } from "../vm/vm.ts";
import { requireIdle } from "../vm/vm_states.ts";

/** `ms` that a record stays open after its last use: files of a folder follow each other. */
const LINGER_MS = 1000;
/** `ms` after which it is opened again, with corp's rules as they are then. */
const OPEN_MS = 5000;

export interface HostRecordOptions {
  home: Home;
  settings: SettingsStore;
  corp: CorpStore;
  sessions: Pick<Sessions, "begin">;
  witnesses: Pick<Witnesses, "begin" | "take" | "ended">;
  /** news of a session without a process */
  onNotice(vm: Vm, notice: ProcessNotice): void;
}

/** The record of a VM, opened by this service. */
interface Opened {
  record: StillRecord;
  at: number;
}

/** Asks and records by the process of a VM. */
export const byProcess = {
  decide: async ({ process }: Vm, file: FileRequest): Promise<FileDecision> =>
    await process.call({ t: "DecideFile", ...file }),
};

/** The way to the records of VMs for the host's own actions. */
export class HostRecords {
  readonly #options: HostRecordOptions;

  constructor(options: HostRecordOptions) {
    this.#options = options;
  }

  /**
   * Asks the rules about a file, on record.
   *
   * @throws {SbxError} `ledger.unavailable`, `session.contract`, `corp.closed`;
   * `vm.busy`: it starts or is removed
   */
  async decide(vm: Vm, file: FileRequest): Promise<FileDecision> {
    // Its process may not listen yet.
    if (vm.state.state === "Booting") requireIdle(vm);
    if (isAlive(vm.state)) return await byProcess.decide(vm, file);
    return await this.#use(vm, (record) => record.decideFile(file));
  }

  /** Records an operation of the host on files. A failure is logged: the operation has happened. */
  async observe(vm: Vm, file: HostFile): Promise<void> {
    try {
      if (isAlive(vm.state)) await vm.process.call({ t: "ObserveFile", ...file });
      else await this.#use(vm, (record) => Promise.resolve(record.observeFile(file)));
    } catch (error) {
      log.warn(asSbxError(error, `recording access to files of "${vm.record.name}"`));
    }
  }

  /**
   * Lifts what holds a VM without a process back.
   * @throws {SbxError} `response.none`, `response.corp`, as {@linkcode decide}
   */
  async lift(vm: Vm, by: AnsweredBy): Promise<void> {
    await this.#use(vm, async (record) => {
      // As corp is now: the open record may have its rules of a moment ago.
      const { response: corp } = await corpLayer(this.#options.corp);
      record.lift(vm.paths.response, vm.record.name, { ...(corp && { corp }) }, by);
    });
  }

  /**
   * Records that a VM has another image from its next start. A failure is logged: its
   * boot is recorded with that image.
   */
  async stateImage(vm: Vm, before: Vm["record"]["environment"]): Promise<void> {
    try {
      await this.#use(vm, (record) => Promise.resolve(record.stateImage(vm.record.environment, before)));
    } catch (error) {
      log.warn(asSbxError(error, `recording the image of "${vm.record.name}"`));
    }
  }

  /** Works with the record of a VM without a process, one work after the other. */
  async #use<T>(vm: Vm, work: (record: StillRecord) => Promise<T>): Promise<T> {
    requireIdle(vm);
    const still = vm.still ??= new Still(
      () => this.#open(vm),
      () => this.#options.witnesses.ended(vm.record.id),
    );
    return await still.use(work);
  }

  async #open(vm: Vm): Promise<StillRecord> {
    const { home, settings, corp, sessions, witnesses, onNotice } = this.#options;
    const { id } = vm.record;
    const [before, corpTerms] = await Promise.all([readContract(vm.paths), corpLayer(corp)]);
    const now: Contract = { ...before, corp: corpTerms, ledger: ledgerOf(settings, corp) };
    const { StillRecord } = await import("../../session/offline/mod.ts");
    await sessions.begin(id);
    await witnesses.begin(id);
    return await StillRecord.open({
      home,
      paths: vm.paths,
      record: vm.record,
      contract: vm.record.parent ? companionContract(now) : now,
      tell: ({ type, payload }) => onNotice(vm, { type, payload: { ...payload } }),
      onHeads: (heads) => witnesses.take(id, heads),
    });
  }
}

/** One VM's record, open while it is used. */
class Still {
  readonly #open: () => Promise<StillRecord>;
  readonly #onClosed: () => Promise<void>;
  #opened?: Opened;
  /** the last work; the next one waits for it */
  #tail: Promise<unknown> = Promise.resolve();
  #timer?: ReturnType<typeof setTimeout>;

  constructor(open: () => Promise<StillRecord>, onClosed: () => Promise<void>) {
    this.#open = open;
    this.#onClosed = onClosed;
  }

  use<T>(work: (record: StillRecord) => Promise<T>): Promise<T> {
    return this.#next(async () => {
      clearTimeout(this.#timer);
      if (this.#opened && performance.now() - this.#opened.at > OPEN_MS) await this.#close();
      this.#opened ??= { record: await this.#open(), at: performance.now() };
      try {
        return await work(this.#opened.record);
      } finally {
        this.#timer = setTimeout(() => void this.close(), LINGER_MS);
      }
    });
  }

  /** Closes the record after pending work: it is complete and sealed then. */
  close(): Promise<void> {
    return this.#next(() => this.#close());
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#tail.then(work);
    this.#tail = done.catch(ignore("the caller has the failure; the next work goes on"));
    return done;
  }

  async #close(): Promise<void> {
    clearTimeout(this.#timer);
    const opened = this.#opened;
    this.#opened = undefined;
    if (!opened) return;
    await opened.record.close().catch((error) => log.warn(error));
    await this.#onClosed();
  }
}
