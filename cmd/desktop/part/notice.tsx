import { notice } from "../store/store.ts";
import { text } from "../text/en.ts";

/** The last message. It stays until it is dismissed or another comes: people read at their own pace. */
export function Notice() {
  const message = notice.value;
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
