/** A decoy, and the codings in which a program may send it. */
import { Buffer } from "node:buffer";
import { type NewCredential, refOf } from "../../lib/credential/mod.ts";
import { KEY } from "./credential.ts";
import type { TestNet } from "./net.ts";

export const SECRET = KEY.github;
export const REF = refOf("github", SECRET);
export const DECOY: NewCredential = { provider: "github", secret: SECRET, decoy: true };

export const base64 = (text: string, before = "") => Buffer.from(before + text).toString("base64");
const percent = (text: string) =>
  Array.from(text, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`).join("");
const escaped = (text: string) =>
  Array.from(text, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

/** The codings of a text, with the word of the finding. */
export const CODINGS: Record<string, [code: (text: string) => string, word: string | undefined]> = {
  "as it is": [(text) => text, undefined],
  "in URL escapes": [percent, "escapes"],
  "in JSON escapes": [escaped, "escapes"],
  "in base64": [(text) => base64(text), "base64"],
  "in base64 behind one byte": [(text) => base64(text, "a"), "base64"],
  "in base64 behind two bytes": [(text) => base64(text, "ab"), "base64"],
  "in base64url": [(text) => Buffer.from(`??${text}`).toString("base64url"), "base64"],
  "in base64 of UTF-16": [(text) => Buffer.from(text, "utf16le").toString("base64"), "base64"],
  "in hex": [(text) => Buffer.from(text).toString("hex"), "hex"],
  "in URL escapes of base64": [(text) => percent(base64(text)), "base64"],
};

/** Titles of the findings about decoys, each time without the ones before. */
export function newTitles({ gate: { notices } }: TestNet, since = 0): string[] {
  return notices.slice(since).flatMap(({ type, payload }) =>
    type === "finding" && payload.rule_id === "credential-decoy" ? [payload.title] : []
  );
}
