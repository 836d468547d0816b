/** Requests that wait for an answer. */
import { SbxError } from "../../base/error/mod.ts";
import type { Progress } from "../entry.ts";
import { foreignText } from "../text.ts";

/** Options of one request. */
export interface CallOptions {
  /** cancels the request, at the server too */
  signal?: AbortSignal;
  /** receives progress reported by the server */
  progress?(progress: Progress): void;
}

interface PendingRequest {
  settle(answer: Record<string, unknown>): void;
  reject(error: unknown): void;
  progress?(progress: Progress): void;
}

/** Characters of an error from the aggregator. */
const ERROR_CHARS_MAX = 1000;

export class PendingRequests {
  readonly #requests = new Map<number, PendingRequest>();
  #lastId = 0;

  /** The next request id; ids increase. */
  nextId(): number {
    return ++this.#lastId;
  }

  /**
   * Waits for the answer to a request.
   *
   * @param label name of the request in errors
   * @param onGivenUp called when the request times out or is aborted
   * @throws {SbxError} `mcp.timeout`, `mcp.failed`, `mcp.channel_closed`; or the signal's reason
   */
  wait(
    id: number,
    label: string,
    timeoutMs: number,
    { signal, progress }: CallOptions,
    onGivenUp: () => void,
  ): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      const giveUp = (error: unknown) => {
        if (!this.#requests.has(id)) return;
        end();
        onGivenUp();
        reject(error);
      };
      const onAbort = () => giveUp(signal!.reason);
      const timer = setTimeout(
        () => giveUp(new SbxError("mcp.timeout", `${label} was not answered within ${timeoutMs / 1000} s`)),
        timeoutMs,
      );
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#requests.delete(id);
      };
      this.#requests.set(id, {
        settle: (answer) => {
          end();
          if (answer.error === undefined) resolve(answer);
          else reject(new SbxError("mcp.failed", `${label}: ${errorText(answer.error)}`));
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

  has(id: unknown): boolean {
    return this.#requests.has(id as number);
  }

  fail(id: number, error: Error): void {
    this.#requests.get(id)?.reject(error);
  }

  settle(id: unknown, answer: Record<string, unknown>): void {
    this.#requests.get(id as number)?.settle(answer);
  }

  /** Tests whether the caller of a request receives progress. */
  wantsProgress(id: unknown): boolean {
    return this.#requests.get(id as number)?.progress !== undefined;
  }

  progress(id: number, progress: Progress): void {
    this.#requests.get(id)?.progress?.(progress);
  }

  rejectAll(error: SbxError): void {
    for (const request of [...this.#requests.values()]) request.reject(error);
  }
}

/** Text of an error: a string, or the JSON-RPC error object of a serialization failure. */
function errorText(error: unknown): string {
  const text = typeof error === "string" ? error : (error as { message?: unknown } | null)?.message;
  return typeof text === "string" ? foreignText(text, ERROR_CHARS_MAX) : "failed without a reason";
}
