import { text } from "../../../text/en.ts";
import { shownValue, stage } from "../staged.ts";
import type { Leaf } from "../tree.ts";
import { attributesOf } from "./common.ts";

/** A file for the guest: its path, and its content. */
export function FileEditor({ leaf }: { leaf: Leaf }) {
  const { path, content } = shownValue(leaf) as { path: string; content: string };
  const { disabled } = attributesOf(leaf);
  const words = text.settings;
  return (
    <span class="file">
      <input
        aria-label={`${leaf.name}: ${words.path}`}
        value={path}
        disabled={disabled}
        onInput={({ currentTarget }) => stage(leaf, { path: currentTarget.value, content })}
      />
      <textarea
        aria-label={`${leaf.name}: ${words.content}`}
        rows={6}
        spellcheck={false}
        value={content}
        disabled={disabled}
        onInput={({ currentTarget }) => stage(leaf, { path, content: currentTarget.value })}
      />
    </span>
  );
}
