/** Connections relayed without inspection: protocols other than HTTP, and TLS that a rule passes uninspected. */
import { asSbxError } from "../../base/error/mod.ts";
import type { Decision, Draft, Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { Flow } from "../exchange/authority.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { connectDraft, NO_HTTP_BODY } from "../exchange/draft.ts";
import type { Requester } from "../exchange/request.ts";
import { errorText } from "../exchange/response_relay.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { relay, relayedBytes } from "../relay.ts";
import { protocolOf } from "./protocol.ts";
import { ClientSpoke, RelayWatch } from "./relay_watch.ts";

/** How a connection of another protocol ended early. */
export interface TunnelEnd {
  /** of a refused connection */
  refused?: Decision;
  /** its client was silent and speaks this after all: the connection is open, and nothing of it was relayed */
  speaks?: "http" | "tls";
}

export class Tunnel {
  readonly #context: ExchangeContext;

  constructor(context: ExchangeContext) {
    this.#context = context;
  }

  /** Relays a protocol other than HTTP: one event, scheme `tcp`. Inside TLS, the upstream gets TLS too. */
  async relayRaw(client: BufferedConnection, flow: Flow, by: Requester, host: string): Promise<TunnelEnd> {
    client.deadline.off();
    const isSecure = flow.scheme === "https";
    const known = protocolOf(client.unread);
    const protocol = isSecure && (known === undefined || known === "unknown") ? "tls" : known;
    const passage = await this.#decide(connectDraft(by, "tcp", host, flow.port, protocol), client);
    if (!passage.allowed) return { refused: passage.decision };
    const { protocol: held } = passage.decision;
    const watch = new RelayWatch({
      hosts: [host, passage.event.http!.request.host],
      // Inside TLS, any protocol is TLS on its way.
      ...(held !== undefined && !(isSecure && held === "tls") && { protocol: held }),
    });
    return await this.#relay(client, passage, host, flow, by, flow.scheme, watch);
  }

  /** Relays TLS uninspected, for a rule that set the scheme of its event to `tls`. */
  async relayUninspected(
    client: BufferedConnection,
    flow: Flow,
    by: Requester,
    host: string,
  ): Promise<TunnelEnd> {
    client.deadline.off();
    const passage = await this.#decide(connectDraft(by, "https", host, flow.port, "tls"), client);
    if (!passage.allowed) return { refused: passage.decision };
    // The rules may have changed since the preview.
    if (passage.event.http?.request.scheme === "tls") {
      return await this.#relay(client, passage, host, flow, by, "tcp");
    }
    passage.finish({ error: "the rule that passed it uninspected has changed" });
    return {};
  }

  async #decide(draft: Draft, client: BufferedConnection): Promise<Passage> {
    const gone = new AbortController();
    if (client.count === 0) client.listen(() => gone.abort());
    return await this.#context.gate.decide(draft, gone.signal);
  }

  /** @param named host of the connection; a rule may have set another */
  async #relay(
    client: BufferedConnection,
    passage: Passage,
    named: string,
    flow: Flow,
    by: Requester,
    scheme: string,
    watch?: RelayWatch,
  ): Promise<TunnelEnd> {
    const { pool, locate, relayMs } = this.#context;
    const { host, port } = passage.event.http!.request;
    const isRedirected = host !== named || port !== flow.port;
    const moved = relayedBytes(passage);
    let error: string | undefined;
    let upstream: BufferedConnection | undefined;
    try {
      const dial = await locate(host, port, isRedirected ? undefined : flow.address, by.actor);
      upstream = await pool.connect({
        scheme: scheme === "https" ? "https" : "tcp",
        host,
        port,
        dial,
      });
      await relay(client, upstream, relayMs, moved, watch);
      return {};
    } catch (cause) {
      if (cause instanceof ClientSpoke) {
        error = `${cause.message}, after a silence: its requests are events of their own`;
        return { speaks: cause.protocol };
      }
      if (cause instanceof MessageFault) {
        error = `the connection was cut at ${cause.reason}`;
        return { refused: this.#refuse(passage, by, cause.reason) };
      }
      error = errorText(cause instanceof ConnectionLost ? cause : asSbxError(cause, "relaying a connection"));
      return {};
    } finally {
      upstream?.close();
      const body = { ...NO_HTTP_BODY, size: moved.received, truncated: moved.received > 0 };
      passage.finish({
        response: {
          status: 200,
          bytes: moved.received,
          headers: {},
          body,
          ...(upstream?.noCloseNotify && { no_close_notify: true }),
        },
        ...(error !== undefined && { error }),
      });
    }
  }

  /** Records bytes that were not relayed. */
  #refuse({ event }: Passage, by: Requester, reason: string): Decision {
    const { scheme, host, port } = event.http!.request;
    const draft = connectDraft(by, scheme, host, port);
    const labels = { event_id: event.common.event_id };
    return this.#context.gate.refuse({ ...draft, common: { ...draft.common, labels } }, {
      id: "guard-relay",
      reason: `a connection of another protocol than HTTP has ${reason}`,
      remedy: "connect to that host itself, by its name, in the protocol that the rule allows",
    });
  }
}
