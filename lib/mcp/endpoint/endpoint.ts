import type { Gate } from "../../policy/mod.ts";
import type { Channel } from "../../base/wire/mod.ts";
import type { Catalogue, ToolServer } from "./catalogue.ts";
import { Connection, type Shared } from "./connection.ts";
import { type EndpointLimits, LIMITS } from "./limit.ts";
import { withLocal } from "./local.ts";

/** What the endpoint of one guest is made of. */
export interface EndpointParts {
  gate: Gate;
  /** the servers outside */
  catalogue: Catalogue;
  /** the built-in server; absent when it is switched off */
  local?: ToolServer;
  limits?: Partial<EndpointLimits>;
}

/**
 * The MCP endpoint of one guest (spec.md, "Guest-facing MCP endpoint"; contracts.md §7, port 5002): the policy
 * boundary between the guest's MCP clients and the servers outside.
 */
export class Endpoint {
  readonly #shared: Shared;
  readonly #connections = new Set<Connection>();
  readonly #unwatch: () => void;
  #inFlight = 0;
  #closed = false;

  constructor({ gate, catalogue, local, limits }: EndpointParts) {
    const all = { ...LIMITS, ...limits };
    this.#shared = {
      gate,
      catalogue: local ? withLocal(catalogue, local) : catalogue,
      limits: all,
      enter: () => this.#inFlight < all.inFlight && ++this.#inFlight > 0,
      leave: () => void this.#inFlight--,
    };
    this.#unwatch = catalogue.watch?.((list) => {
      for (const connection of this.#connections) connection.announce(list);
    }) ?? (() => {});
  }

  /**
   * Serves one connection of the guest to its end, and closes it. Never rejects: what a guest breaks is its own
   * connection.
   *
   * @param channel of frames of at most `MCP_FRAME_LIMIT`; the first is `Hello{process_name}`
   */
  async serve(channel: Channel): Promise<void> {
    if (this.#closed || this.#connections.size >= this.#shared.limits.connections) return channel.close();
    const connection = new Connection(channel, this.#shared);
    this.#connections.add(connection);
    await connection.run().finally(() => this.#connections.delete(connection));
  }

  /** Ends every connection: the VM is over. */
  close(): void {
    this.#closed = true;
    this.#unwatch();
    for (const connection of this.#connections) connection.close();
  }
}
