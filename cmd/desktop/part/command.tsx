import { act } from "../store/act.ts";
import { text } from "../text/en.ts";

/** A command to copy. */
export function CommandLine({ command }: { command: string }) {
  const copy = () => act(() => navigator.clipboard.writeText(command), text.common.copied);
  return (
    <p class="command">
      <code>{command}</code>
      <button type="button" onClick={copy}>{text.common.copy}</button>
    </p>
  );
}
