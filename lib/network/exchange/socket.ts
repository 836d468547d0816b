/** The WebSocket of an exchange: its messages pass through the broker, and its faults are recorded. */
import { SbxError } from "../../base/error/mod.ts";
import { lenientPath } from "../../base/url/mod.ts";
import type { CredentialSubstitution, Event } from "../../event/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { CredentialDenied, type MessageFilter, type ModelRequest } from "../interface/mod.ts";
import type { RelayedBytes } from "../relay.ts";
import { CLOSE, type DataPiece, type SocketChannel, SocketEnded, SocketRelay } from "../websocket/mod.ts";
import type { ExchangeContext } from "./context.ts";
import { requesterOf } from "./draft.ts";
import { SocketModel } from "./socket_model.ts";

export interface SocketExchangeOptions {
  /** event of the upgrade, as policy allowed it */
  event: Event;
  /** records substitutions of the broker @throws {SbxError} `ledger.unavailable` */
  record(substitutions: Iterable<CredentialSubstitution>): void;
}

export class SocketExchange {
  readonly #context: ExchangeContext;
  readonly #options: SocketExchangeOptions;

  constructor(context: ExchangeContext, options: SocketExchangeOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Relays until both sides have ended. @returns reason of an early end @throws {SbxError} */
  async relay(
    guest: BufferedConnection,
    upstream: BufferedConnection,
    moved: RelayedBytes,
  ): Promise<string | undefined> {
    const { relayMs, closeMs } = this.#context;
    const relay = new SocketRelay(guest, upstream, { relayMs, closeMs, moved });
    const channels = { guest: this.#channelOf("request"), upstream: this.#channelOf("response") };
    const model = this.#modelOf(relay);
    const { error, fault } = await relay.run(
      model ? { guest: model.guest(channels.guest), upstream: model.upstream(channels.upstream) } : channels,
    ).finally(() => model?.end());
    if (fault?.side === "guest") this.#refuse(fault.reason);
    return error;
  }

  #channelOf(direction: "request" | "response"): SocketChannel {
    const { event, record } = this.#options;
    const { scheme, host, port } = event.http!.request;
    return new SecretChannel(this.#context.broker.messages({ scheme, host, port, direction }), record);
  }

  /** Model calls of the WebSocket; `undefined` where its messages are of no API that is read. */
  #modelOf(relay: SocketRelay): SocketModel | undefined {
    const { gate, broker, models, budget } = this.#context;
    const by = requesterOf(this.#options.event.common);
    const socket = models?.socket?.(socketRequestOf(this.#options.event));
    return socket && new SocketModel({ gate, broker, by, socket, relay, budget });
  }

  /** Records frames of the guest that cannot be read safely. */
  #refuse(reason: string): void {
    const { event } = this.#options;
    const labels = { event_id: event.common.event_id };
    const kind = { event_type: "http.request", source_engine: "network", labels } as const;
    const { request } = event.http!;
    this.#context.gate.refuse({ common: { ...kind, ...requesterOf(event.common) }, http: { request } }, {
      id: "guard-malformed-websocket",
      reason: `the frames of the WebSocket cannot be read safely: ${reason}`,
      remedy: "send frames as RFC 6455 requires, without extensions",
    });
  }
}

/** Upgraded request as the model port reads it. */
export function socketRequestOf({ http }: Pick<Event, "http">): ModelRequest {
  const { method, scheme, host, port, path, query } = http!.request;
  return { method, scheme, host, port, path: lenientPath(path), query, headers: [] };
}

/** Messages of one direction through the broker's filter. */
class SecretChannel implements SocketChannel {
  readonly #filter: MessageFilter;
  readonly #record: SocketExchangeOptions["record"];
  #recorded = 0;

  constructor(filter: MessageFilter, record: SocketExchangeOptions["record"]) {
    this.#filter = filter;
    this.#record = record;
  }

  take({ bytes, isLast }: DataPiece): Uint8Array {
    return this.#push(bytes, isLast);
  }

  takeReason(reason: Uint8Array): Uint8Array {
    return this.#push(reason, true);
  }

  #push(bytes: Uint8Array, isLast: boolean): Uint8Array {
    try {
      const passed = this.#filter.push(bytes, isLast);
      this.#recordNew();
      return passed;
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      if (!(error instanceof CredentialDenied)) throw new SocketEnded(error.message, CLOSE.internal, error);
      this.#recordNew();
      this.#record(error.substitutions);
      throw new SocketEnded(error.message, CLOSE.policy, error);
    }
  }

  #recordNew(): void {
    const { substitutions } = this.#filter;
    if (substitutions.length === this.#recorded) return;
    const added = substitutions.slice(this.#recorded);
    this.#recorded = substitutions.length;
    this.#record(added);
  }
}
