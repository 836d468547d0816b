import type { Metadata, SettingType } from "./node.ts";

/** What a value of each type is, as `sbx settings set` takes it. */
const FORMS: Record<SettingType, string> = {
  text: "text",
  number: "a whole number",
  bool: "true or false",
  password: "text; never shown again",
  apikey: "text; never shown again",
  file: "@FILE, or JSON {path, content}",
  string_list: "texts with commas between them, or a JSON list",
  int_list: "whole numbers with commas between them",
  float_list: "numbers with commas between them",
};

/** The form of a setting's values, for a person: `a whole number from 1 to 8`. */
export function formOf(type: SettingType, { choices, min, max, validator }: Metadata): string {
  if (choices.length) return choices.join(", ").replace(/, ([^,]*)$/, " or $1");
  const what = validator === null
    ? FORMS[type]
    : { email: "an e-mail address", url: "a URL", ssh_public_key: "an SSH public key" }[validator];
  if (min !== null && max !== null) return `${what} from ${min} to ${max}`;
  if (min !== null) return `${what}, at least ${min}`;
  return max === null ? what : `${what}, at most ${max}`;
}
