import type { Connection } from "./connection.ts";

/** Bytes that went each way. */
export interface Relayed {
  sent: number;
  received: number;
}

/**
 * Copies both ways between a client and an upstream until both have ended. When nothing comes or goes for `idleMs`, or
 * one of them breaks, both are closed.
 *
 * @param moved is kept up to date while it runs
 * @throws {ConnectionLost}
 */
export async function relay(
  client: Connection,
  upstream: Connection,
  idleMs: number,
  moved: Relayed = { sent: 0, received: 0 },
): Promise<Relayed> {
  const alive = () => {
    client.deadline.set(idleMs);
    upstream.deadline.set(idleMs);
  };
  const pump = async (from: Connection, to: Connection, way: keyof Relayed) => {
    while (from.count > 0 || await from.fill()) {
      alive();
      const { waiting } = from;
      from.skip(waiting.length);
      await to.write(waiting);
      moved[way] += waiting.length;
    }
    await to.closeWrite();
  };
  alive();
  try {
    await Promise.all([pump(client, upstream, "sent"), pump(upstream, client, "received")]);
    return moved;
  } finally {
    client.close();
    upstream.close();
  }
}
