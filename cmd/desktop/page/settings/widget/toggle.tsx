import { sendNow } from "../staged.ts";
import type { Leaf } from "../tree.ts";
import { attributesOf } from "./common.ts";

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
