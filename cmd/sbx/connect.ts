import { home } from "../../lib/base/home/mod.ts";
import { type Client, portFromEnv, start } from "../../lib/client/mod.ts";
import { remoteHost } from "./host.ts";
import { note } from "../../lib/base/print/mod.ts";
import type { AskView } from "../../lib/client/api/mod.ts";

/**
 * Returns the client of the gateway that a command is for; starts this home's
 * gateway and service if necessary.
 */
export async function connect(): Promise<Client> {
  const address = remoteHost();
  if (address !== undefined) {
    const { connectRemote } = await import("../../lib/client/remote/mod.ts");
    return await connectRemote(address, Deno.env);
  }
  const { client } = await start(home(), { port: portFromEnv(), onStart: () => note("starting sbx…") });
  return client;
}

/** Calls `onAsk` for every ask that is new or answered. @returns the connection, to be closed */
export function openAskSocket(client: Client, onAsk: (ask: AskView) => void): WebSocket {
  const socket = client.socket("/events");
  socket.onmessage = ({ data }) => {
    const { type, payload } = JSON.parse(data) as { type: string; payload: AskView };
    if (type === "ask") onAsk(payload);
  };
  return socket;
}
