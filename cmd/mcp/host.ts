import { home } from "../../lib/base/home/mod.ts";
import { say } from "../../lib/base/log/mod.ts";
import { type Client, portFromEnv, segment, start } from "../../lib/client/mod.ts";
import type { VmInfo } from "../../lib/client/api/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";

/** Access of tool calls to this home's gateway. */
export class Host {
  readonly vms: OwnVms;
  #busy = 0;
  #waiters: (() => void)[] = [];

  /** @param all whether agents may touch VMs that they did not make */
  constructor({ all }: { all: boolean }) {
    this.vms = new OwnVms(all);
  }

  /**
   * Runs `work` with a client of the API. Like the CLI, starts service and gateway before a call when they
   * are not running: an agent's session may outlive them.
   *
   * @throws {SbxError} the error of the API, or of starting service and gateway
   */
  async use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    this.#busy++;
    try {
      return await work(await connect());
    } finally {
      if (--this.#busy === 0) { for (const wake of this.#waiters.splice(0)) wake(); }
    }
  }

  /** Settles when no call is in progress. */
  waitForIdle(): Promise<void> {
    return this.#busy === 0 ? Promise.resolve() : new Promise((resolve) => this.#waiters.push(resolve));
  }
}

async function connect(): Promise<Client> {
  // stdout belongs to the protocol; agents log stderr.
  const onStart = () => say("sbx-mcp: starting sbx…");
  return (await start(home(), { port: portFromEnv(), onStart })).client;
}

/**
 * VMs that the clients of this process may use: the VMs they made, or all
 * (docs/design/contracts/08-mcp.md §8, "sbx-mcp").
 */
export class OwnVms {
  /** id → name, the newest last; deleted VMs stay, for their records */
  readonly #names = new Map<string, string>();

  /** @param all whether clients may touch VMs that they did not make */
  constructor(readonly all: boolean) {}

  add({ id, name }: { id: string; name: string }): void {
    this.#names.set(id, name);
  }

  has(id: string): boolean {
    return this.all || this.#names.has(id);
  }

  /**
   * Id of a VM that may be touched. Names are resolved here, because another VM may
   * get the name of a deleted one.
   *
   * @throws {SbxError} `vm.not_found`: no such VM, or one that was not made here
   */
  async find(client: Client, idOrName: string): Promise<string> {
    if (this.#names.has(idOrName)) return idOrName;
    const found = await client.json<VmInfo>("GET", `/vms/${segment(idOrName)}/info`).catch((error) => {
      if (error instanceof SbxError && error.code === "vm.not_found") return undefined;
      throw error;
    });
    if (found && this.has(found.id)) return found.id;
    const deleted = [...this.#names].findLast(([, name]) => name === idOrName);
    if (!found && deleted) return deleted[0];
    // Also the id of a recorded session.
    if (this.all) return idOrName;
    throw new SbxError("vm.not_found", `no VM "${idOrName}" was made with these tools`, {
      hint: "`list` shows the VMs that were; a person can start sbx-mcp with --all for access to every VM",
    });
  }
}
