import type { Event } from "../../event/mod.ts";
import type { Ask, AskQueue, Decision } from "../../policy/mod.ts";

/** Who is asked about an event, and how long. */
export interface AskPersonOptions {
  /** `s`; absent: the default */
  timeout?: number;
  /** the event with refs in place of secrets */
  shown: Event;
  /** takes the question back */
  signal?: AbortSignal;
  waits?(ask: Ask): void;
}

/** Asks a person about an event, until its client goes away. */
export async function askPerson(
  asks: AskQueue,
  event: Event,
  decision: Decision,
  { timeout, shown, signal, waits }: AskPersonOptions,
): Promise<Decision> {
  const answer = asks.ask(event, decision, timeout, shown, waits);
  if (!signal) return await answer;
  const withdraw = () => asks.withdraw(event.common.event_id);
  if (signal.aborted) withdraw();
  signal.addEventListener("abort", withdraw);
  try {
    return await answer;
  } finally {
    signal.removeEventListener("abort", withdraw);
  }
}
