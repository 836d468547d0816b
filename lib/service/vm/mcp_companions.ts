/** VMs of stdio MCP servers: each belongs to the VM whose session uses the server, and ends with it. */
import type { CreateRequest } from "../../client/api/mod.ts";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { McpNeed } from "../../session/ipc/mod.ts";
import type { Contract, VmParent } from "../../session/mod.ts";
import type { Registry } from "./registry.ts";
import { isAlive, type Vm } from "./vm.ts";

/** VMs of the MCP servers of one VM (docs/design/contracts/14-limits.md §14). */
const COMPANIONS_MAX = 8;
/** CPUs and memory of such a VM. */
const CPUS = 1;
const RAM_MB = 512;
/** Characters of its name's prefix; a name has at most 64. */
const PREFIX_CHARS = 56;

export interface CompanionsOptions {
  registry: Registry;
  create(request: CreateRequest, parent: VmParent): Promise<Vm>;
  remove(vm: Vm): Promise<void>;
}

/**
 * Contract of such a VM: that of the profile, without MCP. A server of the
 * profile would start itself otherwise.
 */
export function companionContract(contract: Contract): Contract {
  const { profile: { services: _, ...profile }, corp } = contract;
  return {
    ...contract,
    profile: { ...profile, mcp: {} },
    corp: { ...corp, mcp: { local: { enabled: false } } },
  };
}

/** Starts and ends the VMs of MCP servers as the sessions that use them need it. */
export class Companions {
  readonly #options: CompanionsOptions;
  /** needs that are being provided for, and whether there was news meanwhile */
  readonly #busy = new Map<string, { owner: string; server: string; isStale: boolean }>();

  constructor(options: CompanionsOptions) {
    this.#options = options;
  }

  /** Follows the state of a VM, either an owner or a companion. */
  follow(vm: Vm): void {
    const { state, mcp_needs = [] } = vm.state;
    if (vm.record.parent) {
      if (!isAlive(vm.state) && !vm.busy) this.#remove(vm);
      return;
    }
    const isNeeded = ({ record: { parent } }: Vm) =>
      mcp_needs.some(({ server }) => server === parent!.server);
    for (const companion of this.#of(vm)) {
      if (!isAlive(vm.state) || !isNeeded(companion)) this.#remove(companion);
    }
    if (state === "Running") { for (const need of mcp_needs) this.#provide(vm, need); }
  }

  /** Removes the companions of a VM that ends. */
  async removeOf(vm: Vm): Promise<void> {
    await Promise.all(this.#of(vm).map((companion) => this.#remove(companion)));
  }

  /** Removes the companions that have ended, or whose owner has, since a service last ran. */
  async removeOrphans(): Promise<void> {
    const owners = new Set(this.#options.registry.alive().map(({ record }) => record.id));
    const orphans = this.#options.registry.all().filter(({ record: { parent }, state }) =>
      parent && (!owners.has(parent.id) || !isAlive(state))
    );
    await Promise.all(orphans.map((vm) => this.#remove(vm)));
  }

  #of({ record: { id } }: Vm): Vm[] {
    return this.#options.registry.all().filter(({ record }) => record.parent?.id === id);
  }

  /** Servers of a VM that have a VM, or are about to get one. */
  #serversOf(owner: Vm): Set<string> {
    const underWay = [...this.#busy.values()].filter((each) => each.owner === owner.record.id);
    return new Set([
      ...this.#of(owner).map(({ record }) => record.parent!.server),
      ...underWay.map(({ server }) => server),
    ]);
  }

  /** Makes sure that the VM for a need runs, and reports it to its owner. */
  async #provide(owner: Vm, need: McpNeed): Promise<void> {
    const { id } = owner.record;
    const key = `${id} ${need.server}`;
    const underWay = this.#busy.get(key);
    if (underWay) underWay.isStale = true;
    if (underWay) return;
    const progress = { owner: id, server: need.server, isStale: false };
    this.#busy.set(key, progress);
    const answer = await this.#vmFor(owner, need).then(
      ({ record: { id } }) => ({ session: id }),
      (error) => ({ error: asSbxError(error, `starting the VM of MCP server "${need.server}"`).message }),
    );
    const told = await owner.process.call({ t: "McpProgramVm", need, ...answer }).then(
      () => true,
      () => false,
    );
    this.#busy.delete(key);
    // An owner that cannot be reached is ending.
    if (told && progress.isStale) this.follow(owner);
  }

  async #vmFor(owner: Vm, { server, program }: McpNeed): Promise<Vm> {
    const { registry, create } = this.#options;
    const { id, name, profile_id } = owner.record;
    const current = this.#of(owner).find(({ record }) => record.parent!.server === server);
    if (current?.record.parent?.program === program && await answers(current)) return current;
    if (current) await this.#remove(current);
    // Counts the ones under way, including this one, which are not VMs yet.
    if (this.#serversOf(owner).size > COMPANIONS_MAX) {
      throw new SbxError("vm.limit", `"${name}" has ${COMPANIONS_MAX} VMs of stdio MCP servers, the limit`);
    }
    const vm = await create({
      name: registry.freeName(`${name}-${server}`.slice(0, PREFIX_CHARS)),
      profile_id,
      cpus: CPUS,
      ram_mb: RAM_MB,
      persistent: false,
    }, { id, server, program });
    try {
      await vm.booting;
    } catch (error) {
      await this.#remove(vm);
      throw error;
    }
    // Its owner may have ended while it booted.
    if (!isAlive(owner.state)) await this.#remove(vm);
    return vm;
  }

  async #remove(vm: Vm): Promise<void> {
    await this.#options.remove(vm).catch((error) => {
      if ((error as SbxError).code !== "vm.busy") {
        log.warn(asSbxError(error, `removing "${vm.record.name}"`).message);
      }
    });
  }
}

/** Tests whether a VM's process is there and its machine has not ended. */
async function answers(vm: Vm): Promise<boolean> {
  const reply = await vm.process.call({ t: "Info" }).catch(() => undefined);
  return reply !== undefined && isAlive(reply.info);
}
