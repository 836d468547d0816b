/** Connections relayed without inspection: protocols other than HTTP, and TLS that a rule passes uninspected. */
import { asSbxError } from "../../base/error/mod.ts";
import type { Decision, Draft, Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { Flow } from "../exchange/authority.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { connectDraft, NO_HTTP_BODY, type Requester } from "../exchange/draft.ts";
import { errorText } from "../exchange/response_relay.ts";
import { ConnectionLost } from "../fault.ts";
import { relay, type RelayedBytes } from "../relay.ts";

export class Tunnel {
  readonly #context: ExchangeContext;

  constructor(context: ExchangeContext) {
    this.#context = context;
  }

  /**
   * Relays a protocol other than HTTP: one event, scheme `tcp`. Inside TLS, the upstream gets TLS too.
   *
   * @returns the decision of a refused connection
   */
  async relayRaw(
    client: BufferedConnection,
    flow: Flow,
    by: Requester,
    host: string,
  ): Promise<Decision | undefined> {
    client.deadline.off();
    const passage = await this.#decide(connectDraft(by, "tcp", host, flow.port), client);
    if (!passage.allowed) return passage.decision;
    await this.#relay(client, passage, host, flow, by, flow.scheme);
  }

  /** Relays TLS uninspected, for a rule that set the scheme of its event to `tls`. @returns as {@linkcode relayRaw} */
  async relayUninspected(
    client: BufferedConnection,
    flow: Flow,
    by: Requester,
    host: string,
  ): Promise<Decision | undefined> {
    client.deadline.off();
    const passage = await this.#decide(connectDraft(by, "https", host, flow.port), client);
    if (!passage.allowed) return passage.decision;
    // The rules may have changed since the preview.
    if (passage.event.http?.request.scheme === "tls") {
      await this.#relay(client, passage, host, flow, by, "tcp");
    } else passage.finish({ error: "the rule that passed it uninspected has changed" });
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
  ): Promise<void> {
    const { pool, locate, relayMs } = this.#context;
    const { host, port } = passage.event.http!.request;
    const isRedirected = host !== named || port !== flow.port;
    const moved: RelayedBytes = { sent: 0, received: 0 };
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
      await relay(client, upstream, relayMs, moved);
    } catch (cause) {
      error = errorText(cause instanceof ConnectionLost ? cause : asSbxError(cause, "relaying a connection"));
    } finally {
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
}
