import type { BufferedConnection } from "./connection.ts";

/** Relayed `bytes` in each direction. */
export interface RelayedBytes {
  sent: number;
  received: number;
}

/**
 * Copies both ways between a client and an upstream until both have ended. Closes both when one of them breaks, or when
 * no bytes move for `idleMs`.
 *
 * @param moved counters, updated while the relay runs
 * @throws {ConnectionLost}
 */
export async function relay(
  client: BufferedConnection,
  upstream: BufferedConnection,
  idleMs: number,
  moved: RelayedBytes,
): Promise<void> {
  const keepAlive = () => {
    client.deadline.set(idleMs);
    upstream.deadline.set(idleMs);
  };
  const pump = async (from: BufferedConnection, to: BufferedConnection, direction: keyof RelayedBytes) => {
    while (from.count > 0 || await from.fill()) {
      keepAlive();
      const { unread } = from;
      from.skip(unread.length);
      await to.write(unread);
      moved[direction] += unread.length;
    }
    await to.closeWrite();
  };
  keepAlive();
  try {
    await Promise.all([pump(client, upstream, "sent"), pump(upstream, client, "received")]);
  } finally {
    client.close();
    upstream.close();
  }
}
