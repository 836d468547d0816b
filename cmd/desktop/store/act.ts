import { ApiError } from "../api/client.ts";
import { notice } from "./store.ts";

/**
 * Runs a person's action and reports the outcome: errors always, success in the words of `done`.
 *
 * @returns whether it succeeded
 */
export async function act(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done !== undefined) notice.value = { text: done, isError: false };
    return true;
  } catch (error) {
    notice.value = { text: textOf(error), isError: true };
    return false;
  }
}

export function textOf(error: unknown): string {
  if (error instanceof ApiError) return error.hint ? `${error.message}; ${error.hint}` : error.message;
  return error instanceof Error ? error.message : String(error);
}
