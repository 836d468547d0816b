import { SUBSCRIPTIONS_MAX } from "./limit.ts";
import { RPC, RpcError } from "./rpc.ts";

/** Subscriptions of one guest's connections to resources. */
export class Subscriptions<T> {
  readonly #subscribers = new Map<string, Set<T>>();

  /** @throws {RpcError} −32603: the guest has too many */
  add(uri: string, subscriber: T): void {
    const subscribers = this.#subscribers.get(uri);
    if (subscribers) subscribers.add(subscriber);
    else if (this.#subscribers.size < SUBSCRIPTIONS_MAX) this.#subscribers.set(uri, new Set([subscriber]));
    else {throw new RpcError(
        RPC.failed,
        `${SUBSCRIPTIONS_MAX} resources are subscribed to, the limit of this VM`,
      );}
  }

  /** @returns whether the resource has lost its last subscriber */
  remove(uri: string, subscriber: T): boolean {
    const subscribers = this.#subscribers.get(uri);
    if (!subscribers?.delete(subscriber) || subscribers.size > 0) return false;
    return this.#subscribers.delete(uri);
  }

  /** @returns the resources that have lost their last subscriber */
  removeAll(subscriber: T): string[] {
    return [...this.#subscribers.keys()].filter((uri) => this.remove(uri, subscriber));
  }

  subscribersOf(uri: string): Iterable<T> {
    return this.#subscribers.get(uri) ?? [];
  }
}
