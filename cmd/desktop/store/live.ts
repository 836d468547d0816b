/** Keeps the store current: reads everything, follows the events socket, and starts over after a gap. */
import { ApiError, openSocket } from "../api/client.ts";
import {
  api,
  type AskView,
  type Explained,
  type RecordedEvent,
  type Task,
  type VmSummary,
} from "../api/routes.ts";
import { forgetProof, forgetSession } from "../api/sign_in.ts";
import { text } from "../text/en.ts";
import { asks, connection, notice, putAsk, putVm, settings, vms } from "./store.ts";

/** `ms` until the next try; doubles from try to try. */
const RETRY_FIRST_MS = 250, RETRY_MAX_MS = 4000;

/** The decision on an event as it happens. */
export type LiveDecision = NonNullable<Explained["decision"]>;

/** A message of the events socket. */
export type LiveMessage =
  | { type: "security-event"; payload: { event: RecordedEvent; decision?: LiveDecision } }
  | { type: "finding"; payload: Explained["findings"][number] }
  | { type: "ask"; payload: AskView }
  | { type: "task"; payload: Task }
  | { type: "vm-state-changed"; payload: VmSummary }
  | { type: "vm-deleted"; payload: Pick<VmSummary, "id" | "name"> }
  | { type: "settings-changed"; payload: { ids: string[] } }
  | { type: "corp-changed"; payload: { status: string; summary: string } };

const listeners = new Set<(message: LiveMessage) => void>();

/** Calls `listener` for each message. @returns a function that ends that */
export function onMessage(listener: (message: LiveMessage) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Follows the service until the browser is signed out. */
export async function follow(): Promise<void> {
  for (let wait = RETRY_FIRST_MS; connection.value !== "signed-out";) {
    try {
      await followOnce();
      wait = RETRY_FIRST_MS;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        // An answer of another program says nothing about the session; other tabs find out the same way.
        if (error.code !== "stranger") forgetSession();
        else notice.value = { text: text.signIn.stranger, isError: true };
        connection.value = "signed-out";
        return;
      }
    }
    forgetProof();
    connection.value = "offline";
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, RETRY_MAX_MS);
  }
}

/** Listens before it reads, so that nothing falls between; ends when the socket does. */
async function followOnce(): Promise<void> {
  const early: LiveMessage[] = [];
  let take: (message: LiveMessage) => void = (message) => early.push(message);
  // A request says why a socket fails, such as a session that is over.
  await api.settings().then((answer) => settings.value = answer);
  const socket = await openSocket("/events");
  const closed = new Promise<void>((resolve) => socket.onclose = () => resolve());
  socket.onmessage = ({ data }) => take(JSON.parse(data));
  const opened = new Promise<boolean>((resolve) => {
    socket.onopen = () => resolve(true);
    closed.then(() => resolve(false));
  });
  if (!await opened) return;
  await Promise.all([readVms(), readAsks()]);
  connection.value = "online";
  take = apply;
  early.forEach(apply);
  await closed;
}

export async function readVms(): Promise<void> {
  vms.value = (await api.vms()).vms.toSorted((a, b) => a.name.localeCompare(b.name));
}

async function readAsks(): Promise<void> {
  asks.value = (await api.asks()).asks.toReversed();
}

function apply(message: LiveMessage): void {
  const { type, payload } = message;
  if (type === "vm-state-changed") putVm(payload);
  else if (type === "vm-deleted") vms.value = vms.value.filter(({ id }) => id !== payload.id);
  else if (type === "ask") putAsk(payload);
  else if (type === "settings-changed" || type === "corp-changed") {
    api.settings().then((answer) => settings.value = answer, () => {});
  }
  for (const listener of listeners) listener(message);
}
