/** The policy of a running VM: it changes when its files do, and stays as it was when they are broken. */
import { asSbxError, type SbxError } from "../error/mod.ts";
import { compilePolicy, type Policy } from "./policy.ts";
import type { Rule } from "./rule.ts";

/** Where the rules come from, read anew at each reload. */
export type RuleSource = () => Promise<readonly Rule[]>;

/** A policy that can be reloaded. */
export class LivePolicy {
  #current: Policy;
  #problem?: SbxError;

  private constructor(
    readonly source: RuleSource,
    policy: Policy,
    readonly onProblem?: (error: SbxError) => void,
  ) {
    this.#current = policy;
  }

  /** @throws SbxError when the first set of rules is not good: a VM does not start with it */
  static async open(source: RuleSource, onProblem?: (error: SbxError) => void): Promise<LivePolicy> {
    return new LivePolicy(source, compilePolicy(await source()), onProblem);
  }

  /** The last good set. */
  get current(): Policy {
    return this.#current;
  }

  /** Why the files as they are now are not in force; `undefined` when they are. */
  get problem(): SbxError | undefined {
    return this.#problem;
  }

  /** Reads the rules again. A file that is gone or broken leaves the last good set in force, loudly. */
  async reload(): Promise<boolean> {
    try {
      this.#current = compilePolicy(await this.source());
      this.#problem = undefined;
      return true;
    } catch (error) {
      this.#problem = asSbxError(error, "reloading the rules");
      this.onProblem?.(this.#problem);
      return false;
    }
  }
}
