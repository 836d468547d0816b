import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { text } from "../../text/en.ts";

/** Seconds until an ask is denied by itself. */
export function Countdown({ until }: { until: string }) {
  const left = () => Math.max(0, Math.round((Date.parse(until) - Date.now()) / 1000));
  const seconds = useSignal(left());
  useEffect(() => {
    const timer = setInterval(() => seconds.value = left(), 1000);
    return () => clearInterval(timer);
  }, [until]);
  return <p class="hint">{text.inbox.expires(seconds.value)}</p>;
}
