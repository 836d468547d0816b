import type { Gate } from "../../policy/mod.ts";
import type { CredentialPort, ModelPort } from "../interface/mod.ts";
import type { Pool } from "../upstream/pool.ts";
import type { DialAddress } from "../upstream/upstream.ts";
import type { BufferBudget } from "./buffer_budget.ts";

/** Parts shared by all exchanges of one VM. */
export interface ExchangeContext {
  gate: Gate;
  broker: CredentialPort;
  models?: ModelPort;
  pool: Pool;
  /**
   * Address to connect to for a host.
   *
   * @param address destination of the guest's connection; `undefined` looks the host up
   */
  locate(
    host: string,
    port: number,
    address: string | undefined,
    actor: "vm" | "host",
  ): Promise<DialAddress>;
  /** idle timeout of a relayed connection in `ms` */
  relayMs: number;
  /** time for the closing handshake of a WebSocket in `ms` */
  closeMs: number;
  /** time for the rest of a model's answer whose client is gone, in `ms` */
  lingerMs: number;
  budget: BufferBudget;
}
