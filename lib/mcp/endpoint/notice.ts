import type { Gate } from "../../policy/mod.ts";
import type { ServerNotice } from "../entry.ts";
import type { GuestConnection } from "./connection.ts";
import { draftOf } from "./event.ts";
import { LOG_MESSAGES_PER_MINUTE } from "./limit.ts";
import { argumentsParam } from "./params.ts";
import { PerMinute } from "../per_minute.ts";
import { LOG_LEVELS } from "./protocol.ts";
import type { Subscriptions } from "./subscription.ts";

/** Passes what servers say without being asked on to the guest: log messages through policy, updates as they are. */
export class ServerNotices {
  readonly #gate: Gate;
  readonly #connections: Iterable<GuestConnection>;
  readonly #subscriptions: Subscriptions<GuestConnection>;
  readonly #logged = new PerMinute(LOG_MESSAGES_PER_MINUTE);

  constructor(
    gate: Gate,
    connections: Iterable<GuestConnection>,
    subscriptions: Subscriptions<GuestConnection>,
  ) {
    this.#gate = gate;
    this.#connections = connections;
    this.#subscriptions = subscriptions;
  }

  pass(notice: ServerNotice): void {
    if (notice.method === "notifications/message") {
      // A message that cannot be read or recorded is dropped.
      this.#passLog(notice).catch(() => {});
      return;
    }
    const uri = String(notice.params.uri);
    for (const connection of this.#subscriptions.subscribersOf(uri)) connection.announceUpdate(uri);
  }

  async #passLog({ server, method, params: { level, logger, data } }: ServerNotice): Promise<void> {
    const at = LOG_LEVELS.indexOf(level as string);
    const wants = () => [...this.#connections].filter((connection) => connection.wantsLog(at));
    if (at < 0 || wants().length === 0 || !this.#logged.take()) return;
    const name = typeof logger === "string" ? logger : "";
    const names = { server_name: server, tool_name: name, namespaced_tool_name: `${server}__${name}` };
    const args = argumentsParam({ arguments: { level, data } });
    const passage = await this.#gate.decide(draftOf("mcp.event", method, {}, names, args));
    if (!passage.allowed) return;
    const { arguments: { level: decided, data: text } } = passage.event.mcp!.request;
    for (const connection of wants()) {
      connection.log({ level: decided, logger: name ? `${server}/${name}` : server, data: text });
    }
    passage.finish();
  }
}
