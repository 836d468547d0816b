/**
 * Secrets in a setup: a key of a provider becomes a ref where the person has stored
 * one, anything else is withheld.
 */
import { findSecrets, looksRandom, type Span } from "../base/redact/mod.ts";
import { Finder, providerOfToken } from "../credential/mod.ts";

/** A secret that was found. */
export interface FoundSecret {
  file: string;
  /** its line, or the key of its value */
  place: string;
  /** whose key it is, by its shape */
  provider?: string;
  outcome: "ref" | "withheld";
}

/** Text in place of a secret that does not go. */
export const WITHHELD = "credential-withheld";

/**
 * The ref of a person's stored key.
 * @param token a key of that provider
 * @returns undefined: none is stored
 */
export type RefOf = (provider: string, token: string) => string | undefined;

/** The keys of providers, by shape alone. */
const KEYS = new Finder([]);

/** A word, or a part of a path or an address. */
const WORD = /[\w.~+=-]{20,}/g;
/**
 * A value that stands for another one, which is nowhere in this file: `$TOKEN`, `${env:TOKEN}`,
 * `{env:TOKEN}`; not `${TOKEN:-value}`.
 */
const VARIABLE =
  /^(?:[Bb]earer |[Bb]asic |token )?(?:\$[A-Z_][A-Z0-9_]*|\$?\{{1,2} ?[A-Za-z_][\w.]{0,99}(?::(?![-=+])[\w.:/~-]{1,200})? ?\}{1,2})$/;
/** The password of an address. */
const URL_PASSWORD =
  /(?<=[A-Za-z][A-Za-z0-9+.-]{1,20}:\/\/[^\s/?#"'`<>@:]{0,128}:)[^\s/?#"'`<>]{1,256}(?=@)/g;
/** Passwords of examples. */
const EXAMPLE = /^(?:x+|\*+|\.{3}|your[-_]?pass(?:word)?|pass(?:word)?|secret|pwd?)$/i;

/** Secrets of one text, with what stands in the place of each. */
interface Replaced {
  text: string;
  secrets: { start: number; provider?: string; outcome: FoundSecret["outcome"] }[];
}

/**
 * Replaces the secrets of a text.
 *
 * @param name of the setting that has this value; undefined: it is prose or a program, where
 * only the shape of a secret counts
 * @param before word of a list before this one: an option may name the secret that is its value
 */
export function replaceSecrets(text: string, refOf: RefOf, name?: string, before?: string): Replaced {
  if (name !== undefined && VARIABLE.test(text)) return { text, secrets: [] };
  const keys = KEYS.find(text).filter(({ kind }) => kind === "token");
  const refs = KEYS.find(text).filter(({ kind }) => kind === "ref");
  const others = (name === undefined ? inProse(text) : inSetting(name, text, before))
    .filter(({ start, end }) => ![...keys, ...refs].some((each) => each.start < end && start < each.end));
  const spans = [...keys, ...merged(others)].toSorted((a, b) => a.start - b.start);
  const secrets: Replaced["secrets"] = [];
  let out = "";
  let at = 0;
  for (const { start, end } of spans) {
    const token = text.slice(start, end);
    const provider = providerOfToken(token);
    const ref = provider && refOf(provider, token);
    secrets.push({ start, provider, outcome: ref ? "ref" : "withheld" });
    out += text.slice(at, start) + (ref ?? WITHHELD);
    at = end;
  }
  return { text: out + text.slice(at), secrets };
}

function passwordsIn(text: string): Span[] {
  return Array.from(text.matchAll(URL_PASSWORD), ({ index, 0: word }) => ({ word, start: index }))
    .filter(({ word }) => !VARIABLE.test(word))
    .map(({ word, start }) => ({ start, end: start + word.length }));
}

/**
 * A value behind the name of a secret is code or an example as often as one, unless
 * it looks like a secret itself.
 */
function inProse(text: string): Span[] {
  const passwords = passwordsIn(text).filter(({ start, end }) => !EXAMPLE.test(text.slice(start, end)));
  const assigned = findSecrets(text).filter(({ start, end }) => {
    const value = text.slice(start, end);
    return /\d/.test(value) && value.length >= 6 && !/[()[\]{}$<>\s]/.test(value) ||
      value.includes("-----BEGIN");
  });
  return [...passwords, ...assigned];
}

/** The value of a setting, as a line of its file, and as a word of a command line. */
function inSetting(name: string, text: string, before?: string): Span[] {
  const assigned = secretsBehind(`${JSON.stringify(name)}: "`, text, '"');
  const option = before?.startsWith("-") ? secretsBehind(`${before} `, text) : [];
  const random = Array.from(text.matchAll(WORD)).flatMap(({ index, 0: word }) => {
    return looksRandom(word) ? [{ start: index, end: index + word.length }] : [];
  });
  return [...findSecrets(text), ...assigned, ...option, ...passwordsIn(text), ...random];
}

/** Secrets of a text behind another one. */
function secretsBehind(head: string, text: string, end = ""): Span[] {
  return findSecrets(`${head}${text}${end}`)
    .map(({ start, end }) => ({ start: Math.max(0, start - head.length), end: end - head.length }))
    .filter(({ start, end }) => end > start && start < text.length)
    .map(({ start, end }) => ({ start, end: Math.min(end, text.length) }));
}

/** Spans without overlaps. */
function merged(spans: readonly Span[]): Span[] {
  const out: Span[] = [];
  for (const { start, end } of spans.toSorted((a, b) => a.start - b.start)) {
    const last = out.at(-1);
    if (last && start < last.end) last.end = Math.max(last.end, end);
    else out.push({ start, end });
  }
  return out;
}
