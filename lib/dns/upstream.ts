/** Asks resolvers: UDP, TCP where that is truncated, one after another until one answers. */
import { PacketError } from "./guard.ts";
import { UPSTREAM_PENDING_MAX, UPSTREAM_TRIES, UPSTREAM_TRY_MS } from "./limit.ts";
import { exchangeTcp, exchangeUdp, NoAnswer } from "./exchange.ts";
import { EDE, plainName, type Question, type UpstreamAnswer } from "./packet.ts";
import type { Resolver } from "./resolver.ts";

/** No resolver answered. `code` is the Extended DNS Error that says why. */
export class UpstreamError extends Error {
  override name = "UpstreamError";

  constructor(message: string, readonly code: number = EDE.NO_REACHABLE_AUTHORITY) {
    super(message);
  }
}

/** The resolvers of one guest. The same question is under way only once, whoever asks it. */
export class Upstream {
  readonly #resolvers: readonly Resolver[];
  readonly #tryMs: number;
  readonly #pending = new Map<string, Promise<UpstreamAnswer>>();
  /** which resolver is asked first: the one that answered last */
  #first = 0;

  constructor(resolvers: readonly Resolver[], tryMs = UPSTREAM_TRY_MS) {
    this.#resolvers = resolvers;
    this.#tryMs = tryMs;
  }

  /** @throws {UpstreamError} when none of them gives an answer that can be used */
  ask(question: Question): Promise<UpstreamAnswer> {
    const key = `${question.type} ${plainName(question.name)}`;
    const pending = this.#pending.get(key);
    if (pending) return pending;
    if (this.#pending.size >= UPSTREAM_PENDING_MAX) {
      return Promise.reject(
        new UpstreamError(`${UPSTREAM_PENDING_MAX} questions wait for resolvers already`),
      );
    }
    const asked = this.#ask(question).finally(() => this.#pending.delete(key));
    this.#pending.set(key, asked);
    return asked;
  }

  async #ask(question: Question): Promise<UpstreamAnswer> {
    if (this.#resolvers.length === 0) throw new UpstreamError("this machine names no DNS resolver");
    let failure = new UpstreamError("");
    // Each is asked at least once, a single one a few times: a lost packet is no answer either.
    const tries = Math.max(this.#resolvers.length, UPSTREAM_TRIES);
    const first = this.#first;
    const given = performance.now() + UPSTREAM_TRIES * this.#tryMs;
    for (let at = 0; at < tries && performance.now() < given; at++) {
      const index = (first + at) % this.#resolvers.length;
      try {
        const answer = await this.#exchange(this.#resolvers[index], question);
        if (answer.rcode === "NOERROR" || answer.rcode === "NXDOMAIN") {
          this.#first = index;
          return answer;
        }
        failure = new UpstreamError(`the resolver answered ${answer.rcode}`);
      } catch (error) {
        failure = describe(error);
      }
    }
    throw failure;
  }

  async #exchange(resolver: Resolver, question: Question): Promise<UpstreamAnswer> {
    const answer = await exchangeUdp(resolver, question, this.#tryMs);
    return answer.truncated ? await exchangeTcp(resolver, question, this.#tryMs) : answer;
  }
}

function describe(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error;
  if (error instanceof NoAnswer) return new UpstreamError("the resolver did not answer in time");
  if (error instanceof PacketError) {
    return new UpstreamError(`the resolver's answer is refused: ${error.message}`);
  }
  return new UpstreamError("the resolver cannot be reached", EDE.NETWORK_ERROR);
}
