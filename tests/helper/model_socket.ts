/** A guest's WebSockets to a model API, through the real proxy, with an upstream that answers events. */
import { ModelReader } from "../../lib/network/model/mod.ts";
import { TestNet, type TestNetOptions } from "./net.ts";
import { type GuestSocket, openSocket, socketServer } from "./websocket.ts";
import type { Parsed } from "./json.ts";

export const HOST = "api.openai.com";
/** Rules that block models whose name contains "mini". */
export const BLOCK_MINI = `[profiles.rules.no-mini]\nname = "no mini models"\naction = "block"\n` +
  `match = 'model.request.model.contains("mini")'\nreason = "minis are not allowed here"\n`;

interface Server {
  received: string[];
  /** events that answer a message */
  answer(event: Parsed): unknown[];
}

/** A guest's WebSocket to an API, and what its upstream received. */
export async function talk(
  path: string,
  answer: Server["answer"],
  run: (guest: GuestSocket, net: TestNet, received: Parsed[]) => Promise<void>,
  options: TestNetOptions = {},
): Promise<void> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ models: new ModelReader(), target: () => target, ...options });
  const received: Parsed[] = [];
  const server = socketServer(await net.leaf(HOST), (socket) => {
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      received.push(event);
      for (const each of answer(event)) socket.send(JSON.stringify(each));
    };
  });
  target = server.target;
  const guest = await openSocket(net, `wss://${HOST}${path}`);
  try {
    await run(guest, net, received);
  } finally {
    guest.dispose();
    await net.idle();
    await server.close();
  }
}

/** Recorded model calls. */
export const calls = (net: TestNet) => net.gate.entries.filter(({ event }) => event.model);

/** Messages until one of this type. */
export async function until(guest: GuestSocket, type: string): Promise<Parsed> {
  for (let event = JSON.parse(await guest.next());; event = JSON.parse(await guest.next())) {
    if (event.type === type) return event;
  }
}
