import { useSignal } from "@preact/signals";
import { text } from "../../../text/en.ts";
import { shownValue, stage, staged } from "../staged.ts";
import type { Leaf } from "../tree.ts";
import { attributesOf } from "./common.ts";

/** Masked; the service never sends a stored value, so reveal shows the typed text only. */
export function PasswordInput({ leaf }: { leaf: Leaf }) {
  const isShown = useSignal(false);
  const attributes = attributesOf(leaf);
  const words = text.settings;
  return (
    <span class="password">
      <input
        type={(isShown.value ? "text" : "password") as "password"}
        autocomplete="off"
        placeholder={leaf.metadata.prefix ?? (String(leaf.effective_value) || undefined)}
        value={leaf.id in staged.value ? String(shownValue(leaf)) : ""}
        onInput={({ currentTarget }) => stage(leaf, currentTarget.value)}
        {...attributes}
      />
      <button
        type="button"
        aria-pressed={isShown.value}
        disabled={attributes.disabled}
        onClick={() => isShown.value = !isShown.value}
      >
        {isShown.value ? words.hide : words.reveal}
      </button>
    </span>
  );
}
