import { useEffect } from "preact/hooks";
import { notice } from "../store/store.ts";
import { text } from "../text/en.ts";

/** `ms` for which a success is shown; an error stays until it is dismissed. */
const SHOWN_MS = 6000;

/** The last message; screen readers read it when it comes. */
export function Notice() {
  const message = notice.value;
  useEffect(() => {
    if (message === undefined || message.isError) return;
    const timer = setTimeout(() => notice.value = undefined, SHOWN_MS);
    return () => clearTimeout(timer);
  }, [message]);
  return (
    <div class="notice" role="status" aria-live="polite">
      {message && (
        <p class={message.isError ? "error" : undefined}>
          <span>{message.text}</span>
          <button type="button" onClick={() => notice.value = undefined}>{text.common.dismiss}</button>
        </p>
      )}
    </div>
  );
}
