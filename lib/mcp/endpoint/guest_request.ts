import type { Outbox } from "./outbox.ts";
import type { Params, RpcId } from "./rpc.ts";

/** Requests to a program of the guest, and its answers. */
export class GuestRequests {
  readonly #out: Outbox;
  readonly #pending = new Map<RpcId, (result: Params | undefined) => void>();
  #count = 0;

  constructor(out: Outbox) {
    this.#out = out;
  }

  /** @throws Error the program refuses, or does not answer before `signal` aborts */
  async send(method: string, params: Params, signal: AbortSignal): Promise<Params> {
    signal.throwIfAborted();
    const id = `sbx-${++this.#count}`;
    const { promise, resolve } = Promise.withResolvers<Params | undefined>();
    this.#pending.set(id, resolve);
    const onAbort = () => {
      this.#out.notify("notifications/cancelled", { requestId: id });
      resolve(undefined);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      await this.#out.post({ jsonrpc: "2.0", id, method, params });
      const result = await promise;
      if (result) return result;
      throw new Error("the client refused the request or did not answer");
    } finally {
      this.#pending.delete(id);
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Receives an answer; one to no request is ignored. */
  receive(id: RpcId | undefined, result: Params | undefined): void {
    if (id !== undefined) this.#pending.get(id)?.(result);
  }

  /** Fails every request: the program has gone. */
  close(): void {
    for (const resolve of this.#pending.values()) resolve(undefined);
  }
}
