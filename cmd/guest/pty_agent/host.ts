import type { GuestMessage } from "../../../lib/guest/wire/mod.ts";

/** The host, as programs and terminals of the agent use it. */
export interface Host {
  /** variables of every program in this VM */
  environment: Record<string, string>;
  /** opens a connection to the host's port for streams */
  connect(): Promise<Deno.Conn>;
  send(message: GuestMessage): Promise<void>;
}
