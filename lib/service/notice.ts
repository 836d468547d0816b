import type { VmSummary } from "../api/vm.ts";

/** What the service tells its `/events` listeners (contracts.md §2). */
export type Notice =
  | { type: "vm-state-changed"; payload: VmSummary }
  | { type: "security-event"; payload: Record<string, unknown> }
  | { type: "finding"; payload: Record<string, unknown> }
  /** an ask that began to wait, or that is over: its `status` says which */
  | { type: "ask"; payload: Record<string, unknown> }
  /** ids of the settings that are not what they were; `GET /settings/info` says what they are */
  | { type: "settings-changed"; payload: { ids: string[] } };

/** Hands each notice to everybody who listens. */
export class Notices {
  #listeners = new Set<(notice: Notice) => void>();

  /** @returns a function that stops the listening */
  listen(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(notice: Notice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}
