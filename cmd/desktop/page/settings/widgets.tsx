/** Controls of the settings, by their type. */
import { type Leaf, refused, sendNow, shownValue, stage, staged, type Value } from "./tree.ts";
import { useSignal } from "@preact/signals";
import { text } from "../../text/en.ts";

/** Attributes that every control of a setting has. The lock is feedback alone: the service enforces it. */
function attributesOf(leaf: Leaf) {
  const isRefused = leaf.id in refused.value;
  const about = [leaf.description && `${leaf.id}-about`, isRefused && `${leaf.id}-problem`].filter(Boolean);
  return {
    "aria-invalid": isRefused || undefined,
    disabled: leaf.corp_locked || !leaf.enabled,
    "aria-labelledby": `${leaf.id}-name`,
    "aria-describedby": about.join(" ") || undefined,
  };
}

/** A validator may name a type of inputs; TypeScript wants one type at a time. */
const TYPES: Record<string, string> = { email: "email", url: "url" };

export function TextInput({ leaf }: { leaf: Leaf }) {
  return (
    <input
      type={(TYPES[leaf.metadata.validator ?? ""] ?? "text") as "url"}
      value={String(shownValue(leaf))}
      onInput={({ currentTarget }) => stage(leaf, currentTarget.value)}
      {...attributesOf(leaf)}
    />
  );
}

export function Select({ leaf }: { leaf: Leaf }) {
  return (
    <select
      value={String(shownValue(leaf))}
      onChange={({ currentTarget }) => stage(leaf, currentTarget.value)}
      {...attributesOf(leaf)}
    >
      {leaf.metadata.choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}
    </select>
  );
}

function limitsOf({ metadata: { min, max, step } }: Leaf) {
  return { min: min ?? undefined, max: max ?? undefined, step: step ?? undefined };
}

function stageNumber(leaf: Leaf, input: HTMLInputElement): void {
  if (!Number.isNaN(input.valueAsNumber)) stage(leaf, input.valueAsNumber);
}

export function NumberInput({ leaf }: { leaf: Leaf }) {
  return (
    <input
      type="number"
      value={Number(shownValue(leaf))}
      onInput={({ currentTarget }) => stageNumber(leaf, currentTarget)}
      {...limitsOf(leaf)}
      {...attributesOf(leaf)}
    />
  );
}

export function Slider({ leaf }: { leaf: Leaf }) {
  const value = Number(shownValue(leaf));
  return (
    <span class="slider">
      <input
        type="range"
        value={value}
        onInput={({ currentTarget }) => stageNumber(leaf, currentTarget)}
        {...limitsOf(leaf)}
        {...attributesOf(leaf)}
      />
      <output>{value}</output>
    </span>
  );
}

/** A toggle is sent at once. */
export function Toggle({ leaf }: { leaf: Leaf }) {
  return (
    <input
      type="checkbox"
      role="switch"
      checked={leaf.effective_value === true}
      onChange={({ currentTarget }) => sendNow(leaf, currentTarget.checked)}
      {...attributesOf(leaf)}
    />
  );
}

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
