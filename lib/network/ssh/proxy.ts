/**
 * SSH of a guest (docs/design/contracts/05-policy.md §5, "SSH"): a connection to the host and port of a
 * credential that the VM may use ends here, and the host logs in with a key that the guest never has.
 */
import type { Ca } from "../ca/mod.ts";
import { connectDraft } from "../exchange/draft.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import type { Decision } from "../../policy/mod.ts";
import type { SshClient } from "./connection.ts";
import { guestHostKey, type HostKey } from "./host_key.ts";
import { SSH_CONNECTIONS_MAX } from "./limit.ts";

/** The SSH connections of one VM. */
export class SshProxy {
  readonly #context: ExchangeContext;
  readonly #ca: Ca;
  #hostKey?: Promise<HostKey>;
  #open = 0;

  constructor(context: ExchangeContext, ca: Ca) {
    this.#context = context;
    this.#ca = ca;
  }

  /** Serves a connection until it ends. @returns the decision that refused it */
  async serve(client: SshClient): Promise<Decision | undefined> {
    if (this.#open >= SSH_CONNECTIONS_MAX) {
      const { by, host, flow } = client;
      return this.#context.gate.refuse(connectDraft(by, "ssh", host, flow.port, "ssh"), {
        id: "guard-connections",
        reason: `the VM has ${SSH_CONNECTIONS_MAX} SSH connections, the limit`,
        remedy: "close one first",
      });
    }
    this.#open++;
    try {
      const hostKey = await (this.#hostKey ??= guestHostKey(this.#ca));
      // Loaded with the first SSH connection, which most VMs never make.
      const { SshConnection } = await import("./connection.ts");
      const connection = new SshConnection(this.#context, client);
      await connection.serve(hostKey);
      connection.requireWhole();
      return undefined;
    } finally {
      this.#open--;
    }
  }
}
