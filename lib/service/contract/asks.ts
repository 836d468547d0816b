import { SbxError } from "../../base/error/mod.ts";
import type { ReplyTo } from "../../session/ipc/mod.ts";
import type { AskResolve } from "../../client/api/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";
import type { Registry } from "../vm/registry.ts";

type Ask = ReplyTo<"Resolve">["ask"];

/** Asks of all running VMs that wait for a person. */
export class AskInbox {
  readonly #registry: Registry;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** Pending asks, oldest first; a VM that does not reply has none. */
  async list(): Promise<Ask[]> {
    const lists = await Promise.all(
      this.#registry.alive().map((vm) =>
        vm.process.call({ t: "Asks" }).then(({ asks }) => asks, (): Ask[] => [])
      ),
    );
    return lists.flat().sort((a, b) => a.created_at.localeCompare(b.created_at));
  }

  /** A pending ask. @throws {SbxError} `ask.not_found` */
  async get(askId: string): Promise<Ask> {
    const pending = (await this.list()).find(({ ask_id }) => ask_id === askId);
    if (pending) return pending;
    throw new SbxError("ask.not_found", `no ask ${askId} is pending: it was answered, or it expired`, {
      hint: "sbx asks lists the pending ones",
    });
  }

  /** Answers an ask. @throws {SbxError} `ask.not_found`, `ask.changed`, `ask.invalid`, `policy.blocked` */
  async resolve(askId: string, answer: AskResolve, by: AnsweredBy): Promise<Ask> {
    const pending = await this.get(askId);
    const vm = this.#registry.get(pending.session_id);
    return (await vm.process.call({ t: "Resolve", ask_id: askId, ...answer, by })).ask;
  }
}
