import { assertEquals } from "@std/assert";
import type { Client } from "../../../../lib/client/mod.ts";
import { follow } from "../../../../lib/client/tray/follow.ts";

/** Runs a test against a gateway whose sockets open and then stay silent, even when they are closed. */
async function withGateway(run: (client: Client, asked: Promise<void>) => Promise<void>): Promise<void> {
  const asked = Promise.withResolvers<void>();
  const listener = Deno.listen({ port: 0 });
  const connections: Deno.Conn[] = [];
  (async () => {
    for await (const connection of listener) {
      connections.push(connection);
      asked.resolve();
    }
  })();
  const { port } = listener.addr;
  try {
    const client = {
      socket: () => new WebSocket(`ws://127.0.0.1:${port}/`),
      json: () => Promise.resolve({ vms: [], asks: [] }),
    };
    await run(client as unknown as Client, asked.promise);
  } finally {
    listener.close();
    for (const connection of connections) connection.close();
  }
}

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test(
  "tray: a stop while it looks for the gateway ends it",
  options,
  () =>
    withGateway(async (client) => {
      const stop = new AbortController();
      const states: boolean[] = [];
      await follow({
        find() {
          stop.abort();
          return Promise.resolve(client);
        },
        onState: ({ isOnline }) => void states.push(isOnline),
        signal: stop.signal,
      });
      assertEquals(states, [false]);
    }),
);

Deno.test(
  "tray: a stop ends it although the gateway hangs",
  options,
  () =>
    withGateway(async (client, asked) => {
      const stop = new AbortController();
      asked.then(() => stop.abort());
      await follow({ find: () => Promise.resolve(client), onState() {}, signal: stop.signal });
    }),
);
