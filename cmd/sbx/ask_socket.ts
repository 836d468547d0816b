import type { AskView } from "../../lib/client/api/mod.ts";
import type { Client } from "../../lib/client/mod.ts";

/** Calls `onAsk` for every ask that is new or answered. @returns the connection, to be closed */
export function openAskSocket(client: Client, onAsk: (ask: AskView) => void): WebSocket {
  const socket = client.socket("/events");
  socket.onmessage = ({ data }) => {
    const { type, payload } = JSON.parse(data) as { type: string; payload: AskView };
    if (type === "ask") onAsk(payload);
  };
  return socket;
}
