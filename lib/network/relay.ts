import type { Passage } from "../policy/mod.ts";
import type { BufferedConnection } from "./connection.ts";

/** Relayed `bytes` in each direction. */
export interface RelayedBytes {
  sent: number;
  received: number;
}

/** Reads along: how many of these bytes may pass now; the others wait for more. An error ends the relay. */
export interface Watch {
  client(bytes: Uint8Array, ended: boolean): number;
  server(bytes: Uint8Array, ended: boolean): number;
}

/** Relayed bytes of an event, which its budget counts: setting `sent` throws when that is used up. */
export function relayedBytes(passage: Pick<Passage, "countSent">): RelayedBytes {
  let bytes = 0;
  return {
    received: 0,
    get sent() {
      return bytes;
    },
    set sent(count) {
      bytes = count;
      passage.countSent(count);
    },
  };
}

/**
 * Copies both ways between a client and an upstream until both have ended. Closes both when one of them
 * breaks, or when no bytes move for `idleMs`.
 *
 * @param moved counters, updated while the relay runs
 * @param watch its errors are thrown before anything is closed
 * @throws {ConnectionLost}; {SbxError} `policy.blocked`: a budget is used up
 */
export async function relay(
  client: BufferedConnection,
  upstream: BufferedConnection,
  idleMs: number,
  moved: RelayedBytes,
  watch?: Watch,
): Promise<void> {
  let isOver = false;
  let refusal: unknown;
  const read = (look: Watch["client"], unread: Uint8Array, ended: boolean) => {
    try {
      return look(unread, ended);
    } catch (error) {
      refusal = error;
      throw error;
    }
  };
  const keepAlive = () => {
    client.deadline.set(idleMs);
    upstream.deadline.set(idleMs);
  };
  const pump = async (
    from: BufferedConnection,
    to: BufferedConnection,
    direction: keyof RelayedBytes,
    look?: (bytes: Uint8Array, ended: boolean) => number,
  ) => {
    let waiting = 0;
    let ended = false;
    while (!isOver && !ended) {
      if (from.count === waiting) ended = !await from.fill();
      if (isOver || from.count === 0) continue;
      keepAlive();
      const { unread } = from;
      const passing = look ? read(look, unread, ended) : unread.length;
      waiting = unread.length - passing;
      if (passing === 0) continue;
      from.skip(passing);
      moved[direction] += passing;
      await to.write(passing === unread.length ? unread : unread.subarray(0, passing));
    }
    if (!isOver) await to.closeWrite();
  };
  keepAlive();
  try {
    await Promise.all([
      pump(client, upstream, "sent", watch?.client.bind(watch)),
      pump(upstream, client, "received", watch?.server.bind(watch)),
    ]);
  } catch (error) {
    isOver = true;
    if (error !== refusal) close();
    throw error;
  }
  close();

  function close() {
    client.close();
    upstream.close();
  }
}
