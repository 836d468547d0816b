/** When a page reads its data again after events that only announce it. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type LiveMessage, onMessage } from "./live.ts";

/** `ms` from a message to the next look: one for all messages meanwhile. */
const COSTS_MS = 5000, FINDINGS_MS = 500;
/** `ms` from the last call of a model to another look: a long answer has its cost by then. */
const ANSWER_MS = 60_000;

/** A number that grows after calls of models: no message says what one cost. */
export const useSpent = (): number => useLooks(hasCost, COSTS_MS, ANSWER_MS);

/** A number that grows after findings. */
export const useFound = (): number => useLooks(isFinding, FINDINGS_MS);

function hasCost({ type, payload }: LiveMessage): boolean {
  return type === "security-event" && payload.event.model !== undefined;
}

function isFinding({ type }: LiveMessage): boolean {
  return type === "finding";
}

function useLooks(matters: (message: LiveMessage) => boolean, soonMs: number, lateMs?: number): number {
  const looks = useSignal(0);
  useEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined, late: typeof soon;
    const stop = onMessage((message) => {
      if (!matters(message)) return;
      soon ??= setTimeout(() => {
        soon = undefined;
        looks.value++;
      }, soonMs);
      if (lateMs === undefined) return;
      clearTimeout(late);
      late = setTimeout(() => looks.value++, lateMs);
    });
    return () => {
      stop();
      clearTimeout(soon);
      clearTimeout(late);
    };
  }, []);
  return looks.value;
}
