import { text } from "../../text/en.ts";
import { Explain } from "./explain.tsx";
import { sendNow, staged } from "./staged.ts";
import type { Leaf } from "./tree.ts";
import { Widget } from "./widget.tsx";

/** One setting: its words, its control, and who sets it. */
export function LeafRow({ leaf }: { leaf: Leaf }) {
  const words = text.settings;
  const isStaged = leaf.id in staged.value;
  return (
    <div class={leaf.enabled ? "setting" : "setting off"} data-id={leaf.id}>
      <div>
        <strong id={`${leaf.id}-name`}>{leaf.name}</strong>
        {leaf.description && <p class="hint" id={`${leaf.id}-about`}>{leaf.description}</p>}
        {leaf.corp_locked && <p class="lock">{words.locked}</p>}
        {leaf.source === "user" && (
          <p class="hint">
            {words.fromUser}{" "}
            <button type="button" aria-label={words.resetOf(leaf.name)} onClick={() => sendNow(leaf, null)}>
              {words.reset}
            </button>
          </p>
        )}
      </div>
      <div class={isStaged ? "staged" : undefined}>
        <Widget leaf={leaf} />
      </div>
      <Explain leaf={leaf} />
    </div>
  );
}
