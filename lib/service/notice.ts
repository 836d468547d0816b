import type { Task, VmSummary } from "../client/api/mod.ts";
import type { ReplyTo } from "../session/ipc/mod.ts";

/** News of a session from its VM's process; an ask is reported when it begins to wait and when it ends. */
export type ProcessNotice = Omit<Extract<ReplyTo<"Watch">, { t: "Notice" }>, "t">;

/** Message to the listeners of `/events` (docs/design/contracts/02-http.md §2). */
export type Notice =
  | ProcessNotice
  | { type: "vm-state-changed"; payload: VmSummary }
  | { type: "vm-deleted"; payload: { id: string; name: string } }
  /** work of the service for a client: it began, went on or ended */
  | { type: "task"; payload: Task }
  /** corp.toml came, changed, went or failed */
  | { type: "corp-changed"; payload: { status: string; summary: string } }
  /** ids of the settings that changed; `GET /settings/info` has their values */
  | { type: "settings-changed"; payload: { ids: string[] } };

/** Hands each notice to every listener. */
export class Notices {
  readonly #listeners = new Set<(notice: Notice) => void>();

  /** @returns a function that ends the listening */
  listen(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(notice: Notice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}
