/**
 * Earlier states of the repositories and folders in VMs (docs/guides/repositories.md, "Undo"): kept on
 * request and before turns of agents, and put back.
 */
import type { RepositoryState, StateUndo, StateUndone } from "../../client/api/mod.ts";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { userName } from "../../base/user/mod.ts";
import { readWhy } from "../../ledger/read/mod.ts";
import { History, returning, Room, type State, type StateTarget } from "../../repo/mod.ts";
import type { HostRecords } from "../record/host_record.ts";
import type { Supervisor } from "../vm/supervisor.ts";
import type { Vm } from "../vm/vm.ts";
import { guestPath, Workspace } from "./workspace.ts";
import { VmGuest } from "./vm_guest.ts";

/** Parts of the service that states involve. */
export interface StateParts {
  supervisor: Pick<Supervisor, "inGuest">;
  records: Pick<HostRecords, "observe">;
}

export class States {
  readonly #parts: StateParts;
  /** ids of VMs whose state before a turn is being kept */
  readonly #inTurn = new Set<string>();

  constructor(parts: StateParts) {
    this.#parts = parts;
  }

  /** Oldest first. Needs no running VM. */
  async list(vm: Vm): Promise<RepositoryState[]> {
    const states = await new History(new VmGuest(vm), vm.paths.repository).list();
    return await viewsOf(vm, states);
  }

  /**
   * Keeps the current state.
   *
   * @returns undefined: it is as the newest one, or nothing was brought in
   * @throws {SbxError} as {@linkcode History.keep}; `vm.wrong_state`
   */
  async keep(vm: Vm, reason: string): Promise<RepositoryState | undefined> {
    if (!await hasWork(vm)) return undefined;
    const kept = await this.#inGuest(vm, (history) => history.keep(reason));
    return kept && (await viewsOf(vm, [kept]))[0];
  }

  /**
   * Keeps the current state before work that a person may want undone. Never fails:
   * the work must not depend on it.
   */
  async protect(vm: Vm, reason: string): Promise<void> {
    try {
      await this.keep(vm, reason);
    } catch (error) {
      log.warn(`no state of "${vm.record.name}": ${asSbxError(error, "the state").message}`);
    }
  }

  /**
   * Puts an earlier state back.
   *
   * @throws {SbxError} as {@linkcode History.undo}; `event.not_found`, `vm.wrong_state`
   */
  async undo(vm: Vm, { event, discard, ...target }: StateUndo): Promise<StateUndone> {
    if (!await hasWork(vm)) {
      throw new SbxError("repo.none", `no repository or folder of "${vm.record.name}" has states`, {
        hint: `sbx push DIR ${vm.record.name} brings one in; sbx undo ${vm.record.name} --workspace`,
      });
    }
    const point: StateTarget = event === undefined ? target : { before_unix_ms: await timeOf(vm, event) };
    const { to, before, changed } = await this.#inGuest(
      vm,
      (history) => discard ? history.discard(point) : history.undo(point),
    );
    const [one, other] = await viewsOf(vm, [to, ...before ? [before] : []]);
    return { to: one, ...other && { before: other }, changed };
  }

  /** @throws {SbxError} `repo.no_state` */
  async require(vm: Vm, number: number): Promise<void> {
    const states = await new History(new VmGuest(vm), vm.paths.repository).list();
    if (states.some((state) => state.number === number)) return;
    throw new SbxError("repo.no_state", `"${vm.record.name}" has no state ${number} of its repositories`, {
      hint: `sbx undo ${vm.record.name} --list shows the states that are kept`,
    });
  }

  /**
   * Puts a state of a VM into copies of it, once they run.
   * @throws {SbxError} `vm.boot_failed`, `repo.no_state`
   */
  async putInto(copies: readonly Vm[], source: Vm, number: number): Promise<void> {
    const history = new History(new VmGuest(source), source.paths.repository);
    for (const copy of copies) {
      await copy.booting;
      await history.putInto(new VmGuest(copy), number);
    }
  }

  /**
   * Keeps the state before a turn of an agent, in narrow limits: one at a time, and none while another
   * program takes work. Never fails: the turn goes on, at once where none is kept.
   *
   * @param turn its id, for the session that waits
   * @param at_unix_ms when it began
   */
  async turn(vm: Vm, turn: string, at_unix_ms: number): Promise<void> {
    await this.#keepTurn(vm, at_unix_ms);
    await vm.process.call({ t: "TurnKept", turn }).catch(ignore("the session has ended, or waits no longer"));
  }

  async #keepTurn(vm: Vm, at_unix_ms: number): Promise<void> {
    const { id, name } = vm.record;
    if (this.#inTurn.has(id)) return;
    this.#inTurn.add(id);
    try {
      if (!await hasWork(vm)) return;
      const guest = new TurnGuest(vm, this.#parts.records);
      await new History(guest, vm.paths.repository).keepTurn(at_unix_ms);
    } catch (error) {
      log.warn(`no state of "${name}" before a turn: ${asSbxError(error, "the state").message}`);
    } finally {
      this.#inTurn.delete(id);
    }
  }

  #inGuest<T>(vm: Vm, work: (history: History) => Promise<T>): Promise<T> {
    const history = new History(new VmGuest(vm), vm.paths.repository);
    return this.#parts.supervisor.inGuest(vm, "a program", () => work(history));
  }
}

/**
 * The VM while a turn is kept. As for a snapshot, no rule is asked about its bytes, which go nowhere but back
 * to it: a question to a person at each turn would hold the agent up. They are on record.
 */
class TurnGuest extends VmGuest {
  readonly #records: StateParts["records"];

  constructor(vm: Vm, records: StateParts["records"]) {
    super(vm);
    this.#records = records;
  }

  override async download(path: string): Promise<{ body: AsyncIterable<Uint8Array> }> {
    const { file, size } = await new Workspace(this.vm.paths.workspace).open(path);
    const labels = { client: "sbx-service", user: userName(), state: "before a turn of the agent" };
    await this.#records.observe(this.vm, {
      operation: "export",
      path: guestPath(path),
      byte_count: size,
      labels,
    });
    return { body: file.readable };
  }
}

/** Whether anything that comes back was brought in; a live folder is the person's own. */
async function hasWork({ paths }: Vm): Promise<boolean> {
  const record = await new Room(paths.repository).read();
  return record !== undefined && returning(record).some(({ is_live }) => !is_live);
}

/** Time of an event of the VM, in unix ms. @throws {SbxError} `event.not_found` */
async function timeOf({ paths }: Vm, eventId: string): Promise<number> {
  const { event } = await readWhy(paths.ledger, eventId);
  return event.common.timestamp_unix_ms;
}

async function viewsOf({ paths }: Vm, states: State[]): Promise<RepositoryState[]> {
  const record = await new Room(paths.repository).read();
  const places = new Map(
    (record ? returning(record) : []).flatMap(({ name, units }) =>
      units.map(({ store, path }) => [store, { repository: name, path }] as const)
    ),
  );
  return states.map(({ units, ...state }) => ({
    ...state,
    units: units.flatMap(({ store, ...unit }) => {
      const place = places.get(store);
      return place ? [{ ...place, ...unit }] : [];
    }),
  }));
}
