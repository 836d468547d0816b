import { shownValue, stage } from "../staged.ts";
import type { Leaf } from "../tree.ts";
import { attributesOf } from "./common.ts";

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
