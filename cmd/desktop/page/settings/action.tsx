import { api } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import type { Action } from "./tree.ts";

/** A button of the tree; its kind says what it does. */
export function ActionRow({ action }: { action: Action }) {
  const run = () => act(() => api.checkUpdate(), text.settings.checked);
  if (action.action !== "check_update") return null;
  return (
    <div class="setting">
      <div>
        <strong>{action.name}</strong>
        {action.description && <p class="hint">{action.description}</p>}
      </div>
      <div>
        <button type="button" onClick={run}>{text.settings.action[action.action]}</button>
      </div>
    </div>
  );
}
