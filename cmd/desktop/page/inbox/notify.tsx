import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { onMessage } from "../../store/live.ts";
import { vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";

/** Asks the browser for leave to notify. A notification names the VM alone: what it asks may hold a secret. */
export function NotifyButton() {
  const state = useSignal(globalThis.Notification?.permission ?? "denied");
  useEffect(() =>
    onMessage(({ type, payload }) => {
      if (
        type !== "ask" || payload.status !== "pending" || !document.hidden || state.value !== "granted"
      ) return;
      new Notification(text.inbox.notification(vmNames.value.get(payload.session_id) ?? text.app.name), {
        tag: payload.ask_id,
      });
    }), []);
  if (state.value !== "default") return null;
  const request = async () => state.value = await Notification.requestPermission();
  return <button type="button" onClick={request}>{text.inbox.notify}</button>;
}
