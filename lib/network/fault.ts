/**
 * HTTP or TLS bytes that cannot be read safely. Their connection is closed:
 * nothing behind them can be trusted.
 */
export class MessageFault extends Error {
  override name = "MessageFault";

  /** @param reason the fault as a noun phrase; it holds no bytes of the message */
  constructor(readonly reason: string) {
    super(reason);
  }
}

/** The peer is gone, or was idle for too long. */
export class ConnectionLost extends Error {
  override name = "ConnectionLost";

  /** @param why predicate of the peer, such as `closed the connection` */
  constructor(readonly why: string, readonly timedOut = false, cause?: unknown) {
    super(why, { cause });
  }
}

/** The client broke its own request, or does not read the response: no response can reach it. */
export class ClientLost extends Error {
  override name = "ClientLost";

  constructor(override readonly cause: unknown) {
    super("the client is gone", { cause });
  }

  /** Predicate of the client, such as `closed the connection`. */
  get why(): string {
    if (this.cause instanceof MessageFault) {
      return `sent a message that cannot be read safely: ${this.cause.reason}`;
    }
    return this.cause instanceof ConnectionLost ? this.cause.why : "disconnected";
  }
}
