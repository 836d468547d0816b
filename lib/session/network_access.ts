import { asSbxError, ignore } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay } from "../base/time/mod.ts";
import type { Network } from "./network.ts";

/** `ms` between attempts to open a network that could not be opened. */
const RETRY_MS = 2000;

/** The network of a guest: opened at its first connection, and again after a failure. */
export class NetworkAccess {
  readonly #load: () => Promise<Network>;
  readonly #onChange: (problem?: string) => void;
  #network?: Promise<Network>;
  #problem?: string;
  #closed = false;

  /** @param onChange gets the reason why the guest has no network, `undefined` once it has one */
  constructor(load: () => Promise<Network>, onChange: (problem?: string) => void) {
    this.#load = load;
    this.#onChange = onChange;
  }

  /** @throws {SbxError} the reason why it cannot be opened */
  open(): Promise<Network> {
    return this.#network ??= this.#load().then((network) => {
      this.#onChange(this.#problem = undefined);
      return network;
    }, (cause) => {
      this.#network = undefined;
      const { message } = asSbxError(cause, "opening the network of this VM");
      // A guest connects as often as it likes: the same problem is logged once.
      if (message !== this.#problem) log.warn("the network of this VM:", message);
      this.#onChange(this.#problem = message);
      throw cause;
    });
  }

  /**
   * Tries until the network is open. For DNS: a guest whose one connection for queries is cut off never opens
   * another, not even after the problem is solved.
   *
   * @throws {SbxError} the reason why it cannot be opened, when the session ends
   */
  async retry(): Promise<Network> {
    while (true) {
      try {
        return await this.open();
      } catch (error) {
        if (this.#closed) throw error;
        await backgroundDelay(RETRY_MS);
      }
    }
  }

  /** As {@linkcode Network.renew}, of a network that is open. */
  async renew(): Promise<void> {
    await this.#network?.then((network) => network.renew(), ignore("there is no connection yet"));
  }

  /** As {@linkcode Network.cut}, of a network that is open. */
  async cut(): Promise<void> {
    await this.#network?.then((network) => network.cut(), ignore("there is no connection yet"));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#network?.then((network) => network.close(), () => {});
  }
}
