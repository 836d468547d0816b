/** HTTP or TLS bytes that cannot be read safely. Whoever sent them gets no second guess: the connection is closed. */
export class MessageFault extends Error {
  override name = "MessageFault";

  /** @param reason what is wrong, as a clause; it holds no bytes of the message */
  constructor(readonly reason: string) {
    super(reason);
  }
}

/** The other end is gone, or did nothing for too long. */
export class ConnectionLost extends Error {
  override name = "ConnectionLost";

  /** @param why as a clause: `closed the connection` */
  constructor(readonly why: string, readonly timedOut = false, cause?: unknown) {
    super(why, { cause });
  }
}

/** Whoever made the request broke it, or does not take the answer: there is nobody to tell. */
export class ClientLost extends Error {
  override name = "ClientLost";

  constructor(override readonly cause: unknown) {
    super("the client is gone", { cause });
  }

  /** What happened, as a clause with the client as its subject. */
  get why(): string {
    if (this.cause instanceof MessageFault) return `sent what cannot be read safely: ${this.cause.reason}`;
    return this.cause instanceof ConnectionLost ? this.cause.why : "went away";
  }
}
