import { home } from "../../lib/base/home/mod.ts";
import { say } from "../../lib/base/log/mod.ts";
import { type Client, portFromEnv, start } from "../../lib/client/mod.ts";
import { OwnVms } from "./own_vms.ts";

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
   * Runs `work` with a client of the API. Like the CLI, starts service and gateway before a call when they are not
   * running: an agent's session may outlive them.
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
