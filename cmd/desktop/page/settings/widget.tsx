import type { ComponentType } from "preact";
import { Chips } from "./widget/chips.tsx";
import { FileEditor } from "./widget/file.tsx";
import { NumberInput, Slider } from "./widget/number.tsx";
import { PasswordInput } from "./widget/password.tsx";
import { Select, TextInput } from "./widget/text.tsx";
import { Toggle } from "./widget/toggle.tsx";
import type { Leaf } from "./tree.ts";

const WIDGETS: Record<string, ComponentType<{ leaf: Leaf }>> = {
  toggle: Toggle,
  text_input: TextInput,
  number_input: NumberInput,
  password_input: PasswordInput,
  select: Select,
  file_editor: FileEditor,
  string_chips: Chips,
  domain_chips: Chips,
  slider: Slider,
};

/** Controls of types whose metadata names none. */
const BY_TYPE: Record<Leaf["setting_type"], ComponentType<{ leaf: Leaf }>> = {
  text: TextInput,
  number: NumberInput,
  bool: Toggle,
  password: PasswordInput,
  apikey: PasswordInput,
  file: FileEditor,
  string_list: Chips,
  int_list: Chips,
  float_list: Chips,
};

/** The control of a setting, by its widget, or else by its type. */
export function Widget({ leaf }: { leaf: Leaf }) {
  const { widget, choices } = leaf.metadata;
  const Control = WIDGETS[widget ?? (leaf.setting_type === "text" && choices.length > 0 ? "select" : "")] ??
    BY_TYPE[leaf.setting_type];
  return <Control leaf={leaf} />;
}
