/** Follows a home's service through its gateway, which may come and go. */
import { ignore } from "../../base/error/mod.ts";
import type { Client } from "../mod.ts";
import { OFFLINE, stateAfter, type TrayAsk, type TrayMessage, type TrayState, type TrayVm } from "./menu.ts";

/** `ms` until the next search for a gateway. */
const RETRY_MS = 1000;

export interface FollowOptions {
  /** the running gateway, `undefined` without one */
  find(): Promise<Client | undefined>;
  onState(state: TrayState): void;
  signal: AbortSignal;
}

/** Reports each new state until the signal. */
export async function follow({ find, onState, signal }: FollowOptions): Promise<void> {
  onState(OFFLINE);
  while (!signal.aborted) {
    const client = await find().catch(() => undefined);
    if (signal.aborted) return;
    if (client !== undefined) {
      await followOnce(client, onState, signal).catch(
        ignore("the service is away: the next round asks again"),
      );
      if (!signal.aborted) onState(OFFLINE);
    }
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, RETRY_MS);
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}

/** Listens before it reads, so that no change is missed; ends with the socket. */
async function followOnce(
  client: Client,
  onState: (state: TrayState) => void,
  signal: AbortSignal,
): Promise<void> {
  const socket = client.socket("/events");
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  socket.onclose = () => close();
  // A gateway that hangs does not close its end.
  const stop = () => {
    socket.close();
    close();
  };
  signal.addEventListener("abort", stop);
  try {
    const early: TrayMessage[] = [];
    let take = (message: TrayMessage) => void early.push(message);
    socket.onmessage = ({ data }) => take(JSON.parse(data));
    const opened = new Promise<boolean>((resolve) => {
      socket.onopen = () => resolve(true);
      closed.then(() => resolve(false));
    });
    if (!await opened) return;
    const [{ vms }, { asks }] = await Promise.all([
      client.json<{ vms: TrayVm[] }>("GET", "/vms/list"),
      client.json<{ asks: TrayAsk[] }>("GET", "/asks"),
    ]);
    let state: TrayState = { isOnline: true, vms, asks };
    for (const message of early) state = stateAfter(state, message);
    onState(state);
    take = (message) => {
      const next = stateAfter(state, message);
      if (next !== state) onState(state = next);
    };
    await closed;
  } finally {
    signal.removeEventListener("abort", stop);
    socket.close();
  }
}
