import type { GuestMessage } from "../../../lib/machine/guest/wire/mod.ts";

/** The host, as programs and terminals of the agent use it. */
export interface Host {
  /** variables of every program in this VM */
  environment: Record<string, string>;
  /** opens a connection to one of the host's ports */
  connect(port: number): Promise<Deno.Conn>;
  send(message: GuestMessage): Promise<void>;
  /** number of times that a host has connected */
  visits: number;
  /** while the machine is being written down; resolves when a host is there again */
  away?: PromiseWithResolvers<void>;
}
