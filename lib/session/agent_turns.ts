/**
 * Turns of a coding agent, recognized by its model calls: workspace and repositories are kept before each.
 */
import { backgroundDelay, timeLimit } from "../base/time/mod.ts";
import type { Event, ModelEvent } from "../event/mod.ts";
import { PerMinute } from "../mcp/mod.ts";

/**
 * Turns in a minute that are kept, and longest wait of a model call for that, in `ms`
 * (docs/design/contracts/14-limits.md §14).
 */
const TURNS_PER_MINUTE = 10;
const WAIT_MS = timeLimit(2000);

/**
 * A turn begins with the first model call that offers tools after one whose answer used none: the
 * agent had nothing left to do, so its person has said something. Calls without tools, for titles
 * and summaries, belong to no turn.
 */
export class Turns {
  readonly #protect: (event: Event) => Promise<unknown>;
  readonly #kept = new PerMinute(TURNS_PER_MINUTE);
  #isOver = true;

  /** @param protect keeps what changed since the last one; never rejects */
  constructor(protect: (event: Event) => Promise<unknown>) {
    this.#protect = protect;
  }

  /** An event is allowed and has not happened yet. @returns the work to wait for */
  before(event: Event): Promise<void> | undefined {
    if (!isOfAgent(event) || !this.#isOver) return undefined;
    this.#isOver = false;
    if (!this.#kept.take()) return undefined;
    return Promise.race([this.#protect(event).then(() => {}), backgroundDelay(WAIT_MS)]);
  }

  /** An event has ended. */
  ended(event: Event, response: unknown): void {
    if (!isOfAgent(event) || response === undefined) return;
    const { tool_calls } = response as NonNullable<ModelEvent["response"]>;
    this.#isOver = tool_calls.length === 0;
  }
}

/** A turn that waits until the service has kept the repositories of the VM. */
export interface TurnNotice {
  turn: string;
  /** when its model call was made */
  at_unix_ms: number;
}

/**
 * The waits for the service, one at a time: a turn that comes meanwhile takes the place of the one before.
 */
export class TurnStates {
  #waiting?: { turn: string; end: () => void };

  /** @returns resolves when the service answers, which it may never do */
  begin(at_unix_ms: number, tell: (notice: TurnNotice) => void): Promise<void> {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    const turn = crypto.randomUUID();
    this.#waiting = { turn, end };
    tell({ turn, at_unix_ms });
    return promise;
  }

  /** The service has kept the state before a turn, or does not. */
  kept(turn: string): void {
    if (this.#waiting?.turn === turn) this.#waiting.end();
  }
}

function isOfAgent({ model }: Event): boolean {
  return model !== undefined && model.request.tools_count > 0;
}
