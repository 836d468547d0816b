import type { Metadata, SettingType } from "./node/mod.ts";

/** Form of each type's values, as accepted by `sbx settings set`. */
const FORMS: Record<SettingType, string> = {
  text: "text",
  number: "an integer",
  bool: "true or false",
  password: "text, never shown again",
  apikey: "text, never shown again",
  file: "@FILE, or JSON {path, content}",
  string_list: "comma-separated text values, or a JSON list",
  int_list: "comma-separated integers",
  float_list: "comma-separated numbers",
};

/** Describes the form of a setting's values: `an integer from 1 to 8`. */
export function formOf(type: SettingType, { choices, min, max, validator }: Metadata): string {
  if (choices.length) return choices.join(", ").replace(/, ([^,]*)$/, " or $1");
  const form = validator === null ? FORMS[type] : {
    email: "an e-mail address",
    url: "a URL",
    ssh_public_key: "an SSH public key",
    credential_ref: "a ref of sbx credentials list",
  }[validator];
  if (min !== null && max !== null) return `${form} from ${min} to ${max}`;
  if (min !== null) return `${form}, at least ${min}`;
  return max === null ? form : `${form}, at most ${max}`;
}
