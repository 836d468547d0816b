import type { Client } from "./client.ts";
import { sleep } from "./http.ts";
import type { Ask, AskAnswer } from "./shapes.ts";

/** Answers an ask: at once `allow` or `deny` for this event alone, or an answer that covers more. */
export type AskCallback = (ask: Ask) => "allow" | "deny" | AskAnswer | Promise<"allow" | "deny" | AskAnswer>;

/** Pause before a broken connection is made again, in `ms`. */
const AGAIN_MS = 500;

/**
 * Answers the asks of one VM until it is closed. A callback that throws denies its
 * ask; `close` throws that error.
 */
export class AskHandler implements AsyncDisposable {
  readonly #client: Client;
  readonly #session: string;
  readonly #callback: AskCallback;
  readonly #answered = new Set<string>();
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;
  #failure: { error: unknown } | undefined;

  constructor(client: Client, session: string, callback: AskCallback) {
    this.#client = client;
    this.#session = session;
    this.#callback = callback;
    this.#done = this.#run();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        const socket = await this.#client.socket("/events");
        const close = () => socket.close();
        signal.addEventListener("abort", close, { once: true });
        if (signal.aborted) close();
        // Asks that were there before.
        await this.#answerAll();
        for await (const message of socket) {
          const { type, payload } = JSON.parse(String(message));
          if (type === "ask" && payload.session_id === this.#session && payload.status === "pending") {
            await this.#answerAll();
          }
        }
        signal.removeEventListener("abort", close);
      } catch {
        // The service restarts: asks wait meanwhile.
      }
      await sleep(AGAIN_MS, signal).catch(() => {});
    }
  }

  async #answerAll(): Promise<void> {
    const { asks } = await this.#client.http.json<{ asks: Ask[] }>("GET", "/asks");
    await Promise.all(
      asks.filter(({ session_id }) => session_id === this.#session).map((ask) => this.#answer(ask)),
    );
  }

  async #answer(ask: Ask): Promise<void> {
    if (this.#answered.has(ask.ask_id)) return;
    this.#answered.add(ask.ask_id);
    let answer: "allow" | "deny" | AskAnswer = "deny";
    try {
      answer = await this.#callback(ask);
    } catch (error) {
      this.#failure ??= { error };
    }
    const json = {
      ...(typeof answer === "string" ? { decision: answer, scope: "once" } : answer),
      digest: ask.digest,
    };
    try {
      await this.#client.http.json("POST", `/asks/${encodeURIComponent(ask.ask_id)}/resolve`, { json });
    } catch (error) {
      const code = (error as { code?: string }).code ?? "";
      // Answered elsewhere, expired, or its VM has ended: there is nothing to answer.
      if (/^ask\./.test(code)) return;
      this.#answered.delete(ask.ask_id);
      if (!["gateway.unreachable", "service.unreachable"].includes(code)) this.#failure ??= { error };
      throw error;
    }
  }

  /** Ends the answering. @throws the error of a callback, or of an answer that was not accepted */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#done;
    if (this.#failure) throw this.#failure.error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
