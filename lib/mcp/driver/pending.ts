/** Requests that were sent and not answered yet. */
import { SbxError } from "../../base/error/mod.ts";
import type { Progress } from "../entry.ts";
import { foreignText } from "../text.ts";

/** What goes along with a request. */
export interface CallOptions {
  /** ends the waiting; the server is told that nobody waits */
  signal?: AbortSignal;
  /** how far the call is, as the server tells it */
  progress?(progress: Progress): void;
}

interface Waiting {
  settle(answer: Record<string, unknown>): void;
  reject(error: unknown): void;
  progress?(progress: Progress): void;
}

/** Longest text of an error that is passed on. */
const ERROR_CHARS_MAX = 1000;

export class Pending {
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  /** The next id: they only grow. */
  nextId(): number {
    return ++this.#lastId;
  }

  /**
   * Waits for the answer to a request.
   *
   * @param onGivenUp called when nobody waits any more, before an answer came
   * @throws {SbxError} `mcp.timeout`, `mcp.failed`, `mcp.channel_closed`; or the signal's reason
   */
  wait(
    id: number,
    what: string,
    timeoutMs: number,
    { signal, progress }: CallOptions,
    onGivenUp: () => void,
  ): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      const giveUp = (error: unknown) => {
        if (!this.#waiting.has(id)) return;
        end();
        onGivenUp();
        reject(error);
      };
      const onAbort = () => giveUp(signal!.reason);
      const timer = setTimeout(
        () => giveUp(new SbxError("mcp.timeout", `${what} was not answered within ${timeoutMs / 1000} s`)),
        timeoutMs,
      );
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#waiting.delete(id);
      };
      this.#waiting.set(id, {
        settle: (answer) => {
          end();
          if (answer.error === undefined) resolve(answer);
          else reject(new SbxError("mcp.failed", `${what}: ${errorText(answer.error)}`));
        },
        reject: (error) => {
          end();
          reject(error);
        },
        progress,
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  settle(id: unknown, answer: Record<string, unknown>): void {
    this.#waiting.get(id as number)?.settle(answer);
  }

  /** Whether whoever waits wants to hear how far it is. */
  hearsProgress(id: unknown): boolean {
    return this.#waiting.get(id as number)?.progress !== undefined;
  }

  progress(id: number, progress: Progress): void {
    this.#waiting.get(id)?.progress?.(progress);
  }

  /** Nothing will be answered any more. */
  rejectAll(error: SbxError): void {
    for (const waiting of [...this.#waiting.values()]) waiting.reject(error);
  }
}

/** A string, or the JSON-RPC error object of a serialization failure. */
function errorText(error: unknown): string {
  const text = typeof error === "string" ? error : (error as { message?: unknown } | null)?.message;
  return typeof text === "string" ? foreignText(text, ERROR_CHARS_MAX) : "it failed without a reason";
}
