import type { Leaf } from "../tree.ts";

/** Attributes that every control of a setting has. The lock is feedback alone: the service enforces it. */
export function attributesOf(leaf: Leaf) {
  return {
    disabled: leaf.corp_locked || !leaf.enabled,
    "aria-labelledby": `${leaf.id}-name`,
    "aria-describedby": leaf.description ? `${leaf.id}-about` : undefined,
  };
}
