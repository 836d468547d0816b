import type { Task, VmSummary } from "../client/api/mod.ts";
import type { ReplyTo } from "../session/ipc/mod.ts";

/** Notice of a session from its VM's process; an ask has one when it becomes pending and one when it ends. */
export type ProcessNotice = Omit<Extract<ReplyTo<"Watch">, { t: "Notice" }>, "t">;

/** Message to the clients of `/events` (docs/design/contracts/02-http.md §2). */
export type Notice =
  | ProcessNotice
  | { type: "vm-state-changed"; payload: VmSummary }
  | { type: "vm-deleted"; payload: { id: string; name: string } }
  /** work of the service for a client: its start, progress or end */
  | { type: "task"; payload: Task }
  /** corp.toml was added, changed or removed, or cannot be read */
  | { type: "corp-changed"; payload: { status: string; summary: string } }
  /** ids of the settings that changed; `GET /settings/info` has their values */
  | { type: "settings-changed"; payload: { ids: string[] } };

/** Publishes each notice to every listener. */
export class Notices {
  readonly #listeners = new Set<(notice: Notice) => void>();

  /** @returns a function that removes the listener */
  listen(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  publish(notice: Notice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}
