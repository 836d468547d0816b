import type { Channel } from "../../base/wire/mod.ts";
import type { Gate } from "../../policy/mod.ts";
import type { Catalogue, ToolServer } from "./catalogue.ts";
import { GuestConnection, type GuestState } from "./connection.ts";
import { type EndpointLimits, LIMITS, LOG_MESSAGES_PER_MINUTE } from "./limit.ts";
import { withLocal } from "./local.ts";
import { ServerRequests } from "./server_request.ts";
import { Subscriptions } from "./subscription.ts";
import type { ServerNotice } from "../entry.ts";
import { draftOf } from "./event.ts";
import { argumentsParam } from "./params.ts";
import { PerMinute } from "../per_minute.ts";
import { LOG_LEVELS } from "./protocol.ts";

/** Parts of the endpoint of one guest. */
export interface EndpointParts {
  gate: Gate;
  /** external servers */
  catalogue: Catalogue;
  /** built-in server; absent when disabled */
  local?: ToolServer;
  limits?: Partial<EndpointLimits>;
}

/**
 * The MCP endpoint of one guest (docs/design/contracts/07-guest-wire.md §7, "MCP port"; §8, "Guest
 * endpoint"): the policy boundary between the guest's MCP clients and external servers.
 */
export class McpEndpoint {
  readonly #shared: GuestState;
  readonly #connections = new Set<GuestConnection>();
  readonly #unwatch: () => void;
  #inFlight = 0;
  #closed = false;

  constructor({ gate, catalogue, local, limits }: EndpointParts) {
    const all = { ...LIMITS, ...limits };
    this.#shared = {
      gate,
      catalogue: local ? withLocal(catalogue, local) : catalogue,
      limits: all,
      subscriptions: new Subscriptions(),
      enter: () => this.#inFlight < all.inFlight && ++this.#inFlight > 0,
      leave: () => void this.#inFlight--,
      largeResults: 0,
    };
    const requests = new ServerRequests(gate, this.#connections, all.callTimeoutMs);
    const notices = new ServerNotices(gate, this.#connections, this.#shared.subscriptions);
    const ends = [
      catalogue.watch?.((list) => {
        for (const connection of this.#connections) connection.announce(list);
      }),
      catalogue.answerRequests?.((request, signal) => requests.answer(request, signal)),
      catalogue.watchNotices?.((notice) => notices.pass(notice)),
    ];
    this.#unwatch = () => ends.forEach((end) => end?.());
  }

  /**
   * Serves one connection of the guest until it ends. Never rejects: a malformed frame ends its own connection only.
   *
   * @param channel frames of at most `MCP_FRAME_LIMIT`; the first is `Hello{process_name}`
   */
  async serve(channel: Channel): Promise<void> {
    if (this.#closed || this.#connections.size >= this.#shared.limits.connections) return channel.close();
    const connection = new GuestConnection(channel, this.#shared);
    this.#connections.add(connection);
    await connection.run().finally(() => this.#connections.delete(connection));
  }

  /** Closes every connection when the VM ends. */
  close(): void {
    this.#closed = true;
    this.#unwatch();
    for (const connection of this.#connections) connection.close();
  }
}

/** Passes what servers say without being asked on to the guest: log messages through policy, updates as they are. */
class ServerNotices {
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
