import { shownValue, stage } from "../staged.ts";
import type { Leaf } from "../tree.ts";
import { attributesOf } from "./common.ts";

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
