/** Notifications of the browser for asks. */
import type { AskView } from "../api/routes.ts";
import { followEnds } from "../page/inbox/expired.tsx";
import { onMessage } from "../store/live.ts";
import { vmNames } from "../store/store.ts";
import { text } from "../text/en.ts";
import { hrefOf } from "./route.ts";

/** Follows asks. Notifications name only the VM, since a request may hold a secret, and lead to their ask. */
export function followAsks(): void {
  followEnds();
  onMessage(({ type, payload }) => {
    if (type !== "ask" || payload.status !== "pending" || !document.hidden) return;
    if (globalThis.Notification?.permission !== "granted") return;
    const shown = new Notification(text.inbox.notification(nameOf(payload)), { tag: payload.ask_id });
    shown.onclick = () => {
      globalThis.focus();
      location.hash = placeOf(payload);
      shown.close();
    };
  });
}

/** The address of an ask in the inbox. */
export function placeOf({ ask_id }: AskView): string {
  return `${hrefOf("inbox")}?ask=${encodeURIComponent(ask_id)}`;
}

export function nameOf({ session_id }: AskView): string {
  return vmNames.value.get(session_id) ?? text.app.name;
}
