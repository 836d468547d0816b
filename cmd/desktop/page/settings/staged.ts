/**
 * Edits that wait for Save; a toggle is sent at once (docs/design/contracts/03-settings.md §3, "PATCH
 * /settings/edit").
 */
import { signal } from "@preact/signals";
import { api } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { notice, settings } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import type { Leaf, Value } from "./tree.ts";

export const staged = signal<Record<string, Value>>({});

/** The value that a control shows. */
export function shownValue(leaf: Leaf): Value {
  return staged.value[leaf.id] ?? leaf.effective_value;
}

export function stage(leaf: Leaf, value: Value): void {
  const { [leaf.id]: _, ...others } = staged.value;
  const isUnchanged = JSON.stringify(value) === JSON.stringify(leaf.effective_value);
  staged.value = isUnchanged ? others : { ...others, [leaf.id]: value };
}

/** Discards the pending changes and their errors. */
export function discard(): void {
  staged.value = {};
  notice.value = undefined;
}

/** Sends the batch; a batch that is refused stays, with all its reasons. */
export async function save(): Promise<void> {
  if (await send(staged.value)) staged.value = {};
}

/** Sends one change at once; `null` removes the user's value. */
export async function sendNow(leaf: Leaf, value: Value | null): Promise<void> {
  if (!await send({ [leaf.id]: value })) settings.value = settings.value && { ...settings.value };
  const { [leaf.id]: _, ...others } = staged.value;
  staged.value = others;
}

function send(changes: Record<string, Value | null>): Promise<boolean> {
  return act(async () => settings.value = await api.editSettings(changes), text.settings.saved);
}
