import { useSignal } from "@preact/signals";
import { text } from "../../../text/en.ts";
import { shownValue, stage } from "../staged.ts";
import type { Leaf, Value } from "../tree.ts";
import { attributesOf } from "./common.ts";

/** A list of texts or numbers, one chip each; enter adds one. */
export function Chips({ leaf }: { leaf: Leaf }) {
  const typed = useSignal("");
  const values = shownValue(leaf) as (string | number)[];
  const { disabled } = attributesOf(leaf);
  const isNumbers = leaf.setting_type !== "string_list";
  const words = text.settings;
  const change = (next: (string | number)[]) => stage(leaf, next as Value);
  const add = () => {
    const value = isNumbers ? Number(typed.value) : typed.value.trim();
    if (typed.value.trim() === "" || Number.isNaN(value)) return;
    if (!values.includes(value)) change([...values, value]);
    typed.value = "";
  };
  return (
    <span class="chips">
      <ul aria-labelledby={`${leaf.id}-name`}>
        {values.map((value) => (
          <li key={value}>
            {value}
            <button
              type="button"
              disabled={disabled}
              aria-label={words.remove(String(value))}
              onClick={() => change(values.filter((each) => each !== value))}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      <input
        aria-label={words.newValue(leaf.name)}
        inputMode={isNumbers ? "numeric" : "text"}
        value={typed.value}
        disabled={disabled}
        onInput={({ currentTarget }) => typed.value = currentTarget.value}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          add();
        }}
      />
      <button type="button" disabled={disabled} onClick={add}>{words.add}</button>
    </span>
  );
}
