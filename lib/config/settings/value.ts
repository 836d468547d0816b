/** Checks a value against the type and the limits of its setting. */
import type { ConfigIssue, FileValue, Metadata, SettingType, SettingValue, Validator } from "./node/mod.ts";

/** Maximum length of one text value, in characters. */
const TEXT_MAX = 256 * 1024;
/** Maximum elements of one list. */
const LIST_MAX = 1024;

/** Problem with one value; severity `error` prevents the value from taking effect. */
export type ValueProblem = Pick<ConfigIssue, "severity" | "message" | "docs_url">;

export interface CheckedValue {
  /** effective value; undefined if any problem is an error */
  value?: SettingValue;
  problems: ValueProblem[];
}

/** Type and metadata of a setting. */
interface Kind {
  type: SettingType;
  metadata: Metadata;
}

/**
 * Checks one value of any layer: first its type, then the lints of docs/design/contracts/03-settings.md §3.
 */
export function checkValue(kind: Kind, value: unknown): CheckedValue {
  const mismatch = typeProblem(kind.type, value);
  if (mismatch) return { problems: [{ severity: "error", message: mismatch }] };
  const problems = lint(kind, value as SettingValue);
  return problems.some(({ severity }) => severity === "error")
    ? { problems }
    : { value: value as SettingValue, problems };
}

const isText = (value: unknown): value is string => typeof value === "string";
const isInteger = (value: unknown): value is number => Number.isSafeInteger(value);
const isFinite = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isListOf = (is: (value: unknown) => boolean) => (value: unknown) =>
  Array.isArray(value) && value.every(is);

function isFile(value: unknown): value is FileValue {
  return typeof value === "object" && value !== null && Object.keys(value).length === 2 &&
    isText((value as FileValue).path) && isText((value as FileValue).content);
}

const TYPES: Record<SettingType, { is(value: unknown): boolean; words: string }> = {
  text: { is: isText, words: "text" },
  number: { is: isInteger, words: "an integer" },
  bool: { is: (value) => typeof value === "boolean", words: "true or false" },
  password: { is: isText, words: "text" },
  apikey: { is: isText, words: "text" },
  file: { is: isFile, words: "{ path, content }, both text" },
  string_list: { is: isListOf(isText), words: "a list of text values" },
  int_list: { is: isListOf(isInteger), words: "a list of integers" },
  float_list: { is: isListOf(isFinite), words: "a list of numbers" },
};

function typeProblem(type: SettingType, value: unknown): string | undefined {
  const { is, words } = TYPES[type];
  return is(value) ? undefined : `must be ${words}`;
}

function lint({ type, metadata }: Kind, value: SettingValue): ValueProblem[] {
  const { docs_url } = metadata;
  const errors: string[] = [];
  const warnings: string[] = [];
  for (const text of textsOf(value)) {
    if (text.includes("\0")) errors.push("contains a NUL character");
    if (!text.isWellFormed()) errors.push("contains an unpaired surrogate, which UTF-8 cannot encode");
    if (text.length > TEXT_MAX) errors.push(`is longer than ${TEXT_MAX} characters`);
  }
  if (Array.isArray(value) && value.length > LIST_MAX) errors.push(`has more than ${LIST_MAX} elements`);
  for (const number of numbersOf(value)) errors.push(...rangeProblem(number, metadata));
  if (isText(value)) {
    if (metadata.choices.length && !metadata.choices.includes(value)) {
      errors.push(`must be one of ${metadata.choices.join(", ")}`);
    }
    if (value && metadata.validator && !VALIDATOR[metadata.validator].is(value)) {
      errors.push(VALIDATOR[metadata.validator].words);
    }
    if (type === "apikey" && /\s/.test(value)) warnings.push("contains white space, which keys never do");
  } else if (Array.isArray(value) && metadata.choices.length) {
    const invalid = value.find((element) => !metadata.choices.includes(String(element)));
    if (invalid !== undefined) errors.push(`must contain only ${metadata.choices.join(", ")}`);
  }
  if (isFile(value)) lintFile(value, errors, warnings);
  const problem = (severity: "error" | "warning") => (message: string): ValueProblem => ({
    severity,
    message,
    ...(docs_url && { docs_url }),
  });
  return [...errors.map(problem("error")), ...warnings.map(problem("warning"))];
}

function lintFile({ path, content }: FileValue, errors: string[], warnings: string[]) {
  if (!path.startsWith("/")) errors.push("its path must be absolute");
  else if (path.split("/").includes("..")) errors.push("its path must not contain ..");
  else if (path.endsWith("/")) errors.push("its path is a folder");
  else if (!/^\/(root|etc)\//.test(path)) warnings.push("its path is outside /root and /etc");
  if (path.endsWith(".json") && content.trim() && !isJson(content)) errors.push("its content is not JSON");
}

function isJson(content: string): boolean {
  try {
    JSON.parse(content);
    return true;
  } catch {
    return false;
  }
}

function rangeProblem(number: number, { min, max }: Metadata): string[] {
  if ((min === null || number >= min) && (max === null || number <= max)) return [];
  if (min !== null && max !== null) return [`must be between ${min} and ${max}`];
  return [min !== null ? `must be at least ${min}` : `must be at most ${max}`];
}

function textsOf(value: SettingValue): string[] {
  if (isText(value)) return [value];
  if (Array.isArray(value)) return value.filter(isText);
  return isFile(value) ? [value.path, value.content] : [];
}

function numbersOf(value: SettingValue): number[] {
  if (typeof value === "number") return [value];
  return Array.isArray(value) ? (value as unknown[]).filter((element) => typeof element === "number") : [];
}

const VALIDATOR: Record<Validator, { is(text: string): boolean; words: string }> = {
  email: { is: (text) => /^[^\s@<>]+@[^\s@<>]+$/.test(text), words: "must be an e-mail address" },
  url: {
    is: (text) => {
      const url = URL.parse(text);
      return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
    },
    words: "must be an http or https URL, without a user or password",
  },
  credential_ref: {
    is: (text) => /^credential:blake3:[0-9a-f]{64}$/.test(text),
    words:
      'must be "credential:blake3:" and 64 hex characters, as sbx credentials list shows it, never the secret',
  },
  ssh_public_key: {
    is: (text) =>
      /^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp\d+|sk-\S+) [A-Za-z0-9+/]+=*( [^\n]*)?$/.test(text.trim()),
    words: "must be a single-line SSH public key, such as ssh-ed25519 AAAA…",
  },
};
