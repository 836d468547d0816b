import { VM_NAME } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { holdsToken } from "../../credential/mod.ts";
import type { SessionEntry } from "../../ledger/read/mod.ts";
import { readRecord, readState, sessionPaths } from "../../session/mod.ts";
import { SESSION_ID } from "../record/sessions.ts";
import { isAlive, type Vm } from "./vm.ts";
import { diskGb } from "./disk.ts";
import { isForeign, settle, VmProcess } from "./vm_process.ts";
import { currentArch } from "../../base/arch/mod.ts";

/** Looks up a session's entry in the index. */
type EntryLookup = (id: string) => Promise<SessionEntry | undefined>;

/** Every VM of one home, by id, as found on disk when the service starts. */
export class Registry {
  readonly #home: Home;
  readonly #vms = new Map<string, Vm>();

  constructor(home: Home) {
    this.#home = home;
  }

  /**
   * Finds the VMs of earlier runs. A VM whose process replies continues; the others have the state that their
   * process left. A VM with damaged files is listed with an error.
   *
   * @param lookup for the name of a VM whose record is damaged
   */
  async load(lookup: EntryLookup): Promise<void> {
    await Deno.mkdir(this.#home.sessionsDir, { recursive: true, mode: 0o700 });
    for await (const { name, isDirectory } of Deno.readDir(this.#home.sessionsDir)) {
      if (isDirectory && SESSION_ID.test(name)) this.add(await this.open(name, lookup));
    }
  }

  /** Every VM, the oldest first; VMs of the same moment are in the order of their ids. */
  all(): Vm[] {
    return [...this.#vms.values()].sort(({ record: a }, { record: b }) =>
      a.created_at.localeCompare(b.created_at) || a.id.localeCompare(b.id)
    );
  }

  /** VMs with a process, of one profile or of all. */
  alive(profileId?: string): Vm[] {
    return this.all().filter(({ state, record }) =>
      isAlive(state) && (profileId === undefined || record.profile_id === profileId)
    );
  }

  add(vm: Vm): void {
    this.#vms.set(vm.record.id, vm);
  }

  remove(vm: Vm): void {
    this.#vms.delete(vm.record.id);
  }

  /** @throws {SbxError} `vm.not_found` */
  get(idOrName: string): Vm {
    const vm = this.#vms.get(idOrName) ?? this.all().find(({ record }) => record.name === idOrName);
    if (vm) return vm;
    const what = VM_NAME.test(idOrName) ? `no VM is called "${idOrName}"` : "invalid name or id of a VM";
    const near = didYouMean(idOrName, this.all().map(({ record }) => record.name));
    throw new SbxError("vm.not_found", what, {
      hint: near ? `${near} sbx list shows the VMs` : "sbx list shows the VMs",
    });
  }

  /** The first of `vm-1`, `vm-2`, … that is free, or of another prefix. */
  freeName(prefix = "vm"): string {
    for (let n = 1;; n++) {
      const name = `${prefix}-${n}`;
      if (!this.#isTaken(name)) return name;
    }
  }

  /**
   * @throws {SbxError} `vm.name_taken`; `request.invalid`: it looks like a key,
   * and names are in records and logs
   */
  requireName(name: string): void {
    if (holdsToken(name)) {
      throw new SbxError("request.invalid", "the name of the VM looks like a key", {
        hint: "choose another name; sbx credentials add PROVIDER stores keys",
      });
    }
    if (!this.#isTaken(name)) return;
    throw new SbxError("vm.name_taken", `a VM called "${name}" exists already`, {
      hint: "choose another name, or remove that VM with sbx delete NAME",
    });
  }

  hasRoom(limit: number): boolean {
    return this.alive().length < limit;
  }

  #isTaken(name: string): boolean {
    return this.all().some(({ record }) => record.name === name);
  }

  /** Reads a VM whose files are in their place, without adding it. */
  async open(id: string, lookup: EntryLookup): Promise<Vm> {
    const paths = sessionPaths(this.#home, id);
    const process = new VmProcess(paths.socket);
    const info = await findState(process);
    const record = await readRecord(paths).catch(() => undefined);
    if (record?.id !== id) {
      const vm = makeStandIn(this.#home, id, info, await lookup(id));
      log.warn(`VM "${vm.record.name}": ${paths.record} is damaged or gone`);
      if (!info) await settle(paths, vm.state);
      return vm;
    }
    record.scratch_gb = await diskGb({ record, paths });
    return { record, paths, process, state: info ?? await settle(paths, await readLastState(record, paths)) };
  }
}

/**
 * The state of a process that replies. A process that was never ordered to start its machine, because its
 * service was killed before, is ended: it would wait for a minute.
 */
async function findState(process: VmProcess): Promise<Vm["state"] | undefined> {
  try {
    const { info } = await process.call({ t: "Info" });
    if (info.state !== "Booting" || info.accelerator !== undefined) return info;
    return (await process.call({ t: "Stop", force: true })).info;
  } catch (error) {
    if (!isForeign(error)) return undefined;
    // Its socket, machine and ledger are in use: nothing of it may be settled.
    const last_error = "its process is of another version of sbx: it can only be stopped";
    return { state: "Running", boot_stages: [], pid: 0, last_error };
  }
}

/** The state that a VM's process left behind. */
async function readLastState({ name }: Vm["record"], paths: Vm["paths"]): Promise<Vm["state"]> {
  const defunct = { state: "Defunct" as const, boot_stages: [], pid: 0 };
  try {
    return await readState(paths) ?? { ...defunct, last_error: "it never booted" };
  } catch {
    const last_error = `${paths.state} is damaged, so the way it ended is unknown`;
    log.warn(`VM "${name}": ${last_error}`);
    return { ...defunct, last_error };
  }
}

/**
 * Makes a stand-in for a VM whose record cannot be read. It has the id, and the name and profile where the
 * index of sessions has an entry; it can only be deleted.
 *
 * @param state from its process; absent: Defunct
 */
function makeStandIn(
  home: Home,
  id: string,
  state: Vm["state"] | undefined,
  entry: SessionEntry | undefined,
): Vm {
  const paths = sessionPaths(home, id);
  return {
    damaged: true,
    paths,
    process: new VmProcess(paths.socket),
    record: {
      id,
      name: entry?.name ?? `damaged-${id.slice(0, 8)}`,
      profile_id: entry?.profile_id ?? "unknown",
      profile_revision: entry?.profile_revision ?? "",
      created_at: entry?.created_at ?? new Date(0).toISOString(),
      // It may have been persistent: only a command with its name removes it.
      persistent: true,
      cpus: 0,
      ram_mb: 0,
      scratch_gb: 0,
      env: {},
      files: [],
      assets: { version: "", arch: currentArch(), kernel: "", initrd: "", rootfs: "" },
    },
    state: state ?? {
      state: "Defunct",
      boot_stages: [],
      pid: 0,
      last_error:
        `${paths.record} is damaged or gone, so it cannot be started; its files are in ${paths.workspace}`,
    },
  };
}
