/** Connections whose bytes are passed on as they are: what is no HTTP, and TLS that a rule lets through. */
import { asSbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import { errorText } from "../exchange/answering.ts";
import type { Channel } from "../exchange/authority.ts";
import type { Connection } from "../connection.ts";
import { connectDraft, NO_HTTP_BODY, type Requester } from "../exchange/draft.ts";
import type { ExchangeContext } from "../exchange/exchange.ts";
import { relay, type Relayed } from "../relay.ts";

export class Tunnel {
  readonly #context: ExchangeContext;

  constructor(context: ExchangeContext) {
    this.#context = context;
  }

  /** A protocol that is no HTTP: one event for the connection, scheme `tcp`. Inside TLS, the upstream gets TLS too. */
  async raw(client: Connection, channel: Channel, by: Requester, host: string): Promise<void> {
    client.deadline.off();
    const { allowed, event } = await this.#decide(connectDraft(by, "tcp", host, channel.port), client);
    if (allowed) await this.#relay(client, event, channel, by, channel.scheme);
  }

  /** TLS that nobody looks into, because a rule has set its event's scheme to `tls`. */
  async uninspected(client: Connection, channel: Channel, by: Requester, host: string): Promise<void> {
    client.deadline.off();
    const { allowed, event } = await this.#decide(connectDraft(by, "https", host, channel.port), client);
    // The rules may have changed since they were asked the first time.
    if (allowed && event.http?.request.scheme === "tls") await this.#relay(client, event, channel, by, "tcp");
  }

  async #decide(draft: ReturnType<typeof connectDraft>, client: Connection) {
    const gone = new AbortController();
    if (client.count === 0) client.listen(() => gone.abort());
    return await this.#context.gate.decide(draft, gone.signal);
  }

  async #relay(
    client: Connection,
    event: Event,
    { address }: Channel,
    by: Requester,
    scheme: string,
  ): Promise<void> {
    const { gate, pool, locate, relayMs } = this.#context;
    const { host, port } = event.http!.request;
    const began = performance.now();
    const moved: Relayed = { sent: 0, received: 0 };
    let error: string | undefined;
    try {
      const target = await locate(host, port, address, by.actor);
      const upstream = await pool.connect({
        scheme: scheme === "https" ? "https" : "tcp",
        host,
        port,
        target,
      });
      await relay(client, upstream, relayMs, moved);
    } catch (cause) {
      error = errorText(asSbxErrorUnlessLost(cause));
    } finally {
      const body = { ...NO_HTTP_BODY, size: moved.received, truncated: moved.received > 0 };
      gate.finish(event, {
        response: { status: 200, bytes: moved.received, headers: {}, body },
        duration_ms: performance.now() - began,
        ...(error !== undefined && { error }),
      });
    }
  }
}

function asSbxErrorUnlessLost(cause: unknown): unknown {
  return cause instanceof Error && cause.name === "ConnectionLost"
    ? cause
    : asSbxError(cause, "relaying a connection");
}
