/** Queries resolvers: over UDP, over TCP for truncated answers, one resolver after another until one answers. */
import { PacketError } from "./guard.ts";
import { RESOLVER_PENDING_MAX, RESOLVER_TRIES, RESOLVER_TRY_MS } from "./limit.ts";
import { type DnsQuestion, EDE, plainName, type ResolverAnswer } from "./packet.ts";
import type { Resolver } from "./resolver.ts";
import { queryTcp, queryUdp, ResolverTimeout } from "./transport.ts";

/** No resolver answered. `code` is the Extended DNS Error of the reason. */
export class ResolverError extends Error {
  override name = "ResolverError";

  constructor(message: string, readonly code: number = EDE.NO_REACHABLE_AUTHORITY) {
    super(message);
  }
}

/** Client of one guest's resolvers. Equal questions at the same time share one query. */
export class ResolverClient {
  readonly #resolvers: readonly Resolver[];
  readonly #tryMs: number;
  readonly #pending = new Map<string, Promise<ResolverAnswer>>();
  /** index of the resolver to query first: the last one that answered */
  #first = 0;

  constructor(resolvers: readonly Resolver[], tryMs = RESOLVER_TRY_MS) {
    this.#resolvers = resolvers;
    this.#tryMs = tryMs;
  }

  /** @throws {ResolverError} no resolver gives a usable answer */
  query(question: DnsQuestion): Promise<ResolverAnswer> {
    const key = `${question.type} ${plainName(question.name)}`;
    const pending = this.#pending.get(key);
    if (pending) return pending;
    if (this.#pending.size >= RESOLVER_PENDING_MAX) {
      return Promise.reject(
        new ResolverError(`${RESOLVER_PENDING_MAX} questions are pending at resolvers, the limit`),
      );
    }
    const answer = this.#query(question).finally(() => this.#pending.delete(key));
    this.#pending.set(key, answer);
    return answer;
  }

  async #query(question: DnsQuestion): Promise<ResolverAnswer> {
    if (this.#resolvers.length === 0) throw new ResolverError("this machine has no DNS resolver");
    let failure = new ResolverError("");
    // Each resolver gets a try, and a single one several: a lost packet is not an answer.
    const tries = Math.max(this.#resolvers.length, RESOLVER_TRIES);
    const first = this.#first;
    const deadline = performance.now() + RESOLVER_TRIES * this.#tryMs;
    for (let at = 0; at < tries && performance.now() < deadline; at++) {
      const index = (first + at) % this.#resolvers.length;
      try {
        const answer = await this.#exchange(this.#resolvers[index], question);
        if (answer.rcode === "NOERROR" || answer.rcode === "NXDOMAIN") {
          this.#first = index;
          return answer;
        }
        failure = new ResolverError(`the resolver answered ${answer.rcode}`);
      } catch (error) {
        failure = describeFailure(error);
      }
    }
    throw failure;
  }

  async #exchange(resolver: Resolver, question: DnsQuestion): Promise<ResolverAnswer> {
    const answer = await queryUdp(resolver, question, this.#tryMs);
    return answer.truncated ? await queryTcp(resolver, question, this.#tryMs) : answer;
  }
}

function describeFailure(error: unknown): ResolverError {
  if (error instanceof ResolverError) return error;
  if (error instanceof ResolverTimeout) return new ResolverError("the resolver did not answer in time");
  if (error instanceof PacketError) {
    return new ResolverError(`the resolver's answer is invalid: ${error.message}`);
  }
  return new ResolverError("the resolver cannot be reached", EDE.NETWORK_ERROR);
}
