import { isObject } from "../object/mod.ts";
import { findAssigned } from "./assignment.ts";
import { findInCommands } from "./command.ts";
import { findDigits } from "./digit.ts";
import { looksRandom } from "./entropy.ts";
import { readingsOf } from "./escape.ts";
import { strengthOf } from "./name.ts";
import { findMnemonics } from "./mnemonic.ts";
import { findAll, findHosts, findPlaces } from "./place.ts";
import { findPrivateKeys } from "./private_key.ts";
import { REDACTED, replaceSpans, type Span } from "./span.ts";
import { findTokens } from "./token.ts";

/** Finds the secrets that this machine knows, in all their encodings: the finder of the credential broker. */
export interface KnownSecrets {
  find(text: string): { start: number; end: number; kind: string }[];
}

/** What a {@linkcode Redactor} knows of its machine. */
export interface RedactorOptions {
  known?: KnownSecrets;
  /** the user's name, replaced where it is a segment of a path or follows the word "user" */
  user?: string;
  /** also replaces hosts of URLs, IPv4 addresses and these names of the machine */
  hosts?: readonly string[];
}

/** Passes after which a text must have become still. A replacement changes what its neighbours look like. */
const PASSES_MAX = 8;
/** Text in place of one that does not become still. */
const WITHHELD = "[redacted: whole text]";
const WORDS = /[A-Za-z0-9_.~+/=-]{20,}/g;
/** Words whose segments are looked at one by one; base64 has slashes too. */
const PATH = /^(?:~|\.{1,2})?\/|^[\w.-]+\/[\w.-]+\//;

/**
 * Replaces secrets, user names and addresses in text (docs/design/contracts/11-debug-report.md §11,
 * "Redaction"). Idempotent; takes time in proportion to the text.
 */
export class Redactor {
  readonly #known?: KnownSecrets;
  readonly #user?: RegExp;
  readonly #hosts?: RegExp;

  constructor({ known, user, hosts }: RedactorOptions = {}) {
    this.#known = known;
    if (user) this.#user = new RegExp(`(?<=[/\\\\]|\\buser )${RegExp.escape(user)}(?![\\w.-])`, "g");
    if (hosts) this.#hosts = wordsPattern(hosts);
  }

  /** The text without secrets. */
  text = (text: string): string => {
    let before = text;
    for (let pass = 0; pass < PASSES_MAX; pass++) {
      const spans = readingsOf(before).flatMap(({ text, place }) => this.#find(text).map(place));
      const after = replaceSpans(before, spans);
      if (after === before) return after;
      before = after;
    }
    return WITHHELD;
  };

  /** A JSON value without secrets, also in names of fields. Values of fields with secret names are replaced. */
  value<T>(value: T): T {
    return this.#value(value) as T;
  }

  #value(value: unknown, name?: string): unknown {
    if (typeof value === "string") return this.#field(value, name);
    if (Array.isArray(value)) return value.map((item) => this.#value(item, name));
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [this.text(key), this.#value(item, this.text(key))]),
    );
  }

  #field(text: string, name?: string): string {
    // A secret as the name may have its other half as the value.
    if (name?.includes(REDACTED) && text !== "") return REDACTED;
    if (name === undefined || text === "" || strengthOf(name) === undefined) return this.text(text);
    const prefix = `${JSON.stringify(name)}: `;
    const line = this.text(`${prefix}${JSON.stringify(text)}`);
    try {
      return this.text(JSON.parse(line.slice(prefix.length)));
    } catch {
      return REDACTED;
    }
  }

  #find(text: string): Span[] {
    return [
      ...(this.#known?.find(text) ?? []).filter(({ kind }) => kind !== "ref")
        .map(({ start, end }) => ({ start, end })),
      ...findPrivateKeys(text),
      ...findTokens(text),
      ...findAssigned(text),
      ...findInCommands(text),
      ...findDigits(text),
      ...findMnemonics(text),
      ...findPlaces(text),
      ...findRandom(text),
      ...(this.#user ? findAll(this.#user, text, "[user]") : []),
      ...(this.#hosts ? [...findHosts(text), ...findAll(this.#hosts, text, "[host]")] : []),
    ];
  }
}

/** Words of high entropy; those of paths segment by segment. */
function findRandom(text: string): Span[] {
  return Array.from(text.matchAll(WORDS)).flatMap(({ index, 0: word }) => {
    const parts = PATH.test(word) ? word.split("/") : [word];
    let at = index;
    return parts.flatMap((part) => {
      const start = at;
      at += part.length + 1;
      return looksRandom(part) ? [{ start, end: start + part.length }] : [];
    });
  });
}

function wordsPattern(names: readonly string[]): RegExp | undefined {
  const words = names.filter((name) => name.length > 1 && name !== "localhost");
  if (words.length === 0) return /(?!)/g;
  return new RegExp(`(?<![\\w-])(?:${words.map((word) => RegExp.escape(word)).join("|")})(?![\\w-])`, "gi");
}
