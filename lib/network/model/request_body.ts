import { isObject } from "../../base/object/mod.ts";
import { readForm } from "./form.ts";
import { type Json, objectOf } from "./json.ts";
import { findAmbiguity } from "./key.ts";
import type { Header } from "./types.ts";

/** Body of a request that may be a model call. */
export interface RequestBody {
  /** its JSON object, or the fields of its form; empty for any other body */
  json: Json;
  text: string;
  /** true for a form, whose text holds files */
  isForm: boolean;
  /** Finds why receivers may read it differently, or not at all; a clause. Slow for long bodies. */
  fault(): string | undefined;
}

const lenient = new TextDecoder();
const strict = new TextDecoder("utf-8", { fatal: true });
const UTF8 = /^(utf-?8|us-ascii|ascii)$/i;
/** Content types whose bodies every receiver takes for JSON, if it takes them at all. */
const JSON_TYPE =
  /^(?:application\/(?:[\w.-]+\+)?json|text\/(?:json|plain)|application\/octet-stream)[ \t]*(?:;|$)/i;

/**
 * Reads a body without encoding.
 *
 * @param missing why `bytes` are not the whole body; its JSON is not read then
 */
export function readRequestBody(
  bytes: Uint8Array,
  headers: readonly Header[],
  missing: string | undefined,
): RequestBody {
  const types = headers.filter(([name]) => name === "content-type").map(([, value]) => value);
  if (types.length === 1 && /^multipart\//i.test(types[0])) return readFormBody(bytes, types[0], missing);
  const text = lenient.decode(bytes);
  const value = missing === undefined ? parse(text) : undefined;
  const fault = () => {
    if (missing !== undefined) return missing;
    if (bytes.length === 0) return undefined;
    if (types.length > 1) return "it has several content types";
    if (types.length === 1 && !JSON_TYPE.test(types[0])) return "its content type is not that of JSON";
    if (!isUtf8(bytes, types[0])) return "its body is not UTF-8";
    return isObject(value) ? findAmbiguity(text) : "its body is not a JSON object";
  };
  return { json: objectOf(value), text, isForm: false, fault };
}

function readFormBody(bytes: Uint8Array, type: string, missing: string | undefined): RequestBody {
  const form = missing === undefined ? readForm(bytes, type) : { fault: missing };
  // A server reads `stream` of a form as text too.
  const json = Object.fromEntries(form.fields ?? []);
  return {
    json: { ...json, ...(json.stream !== undefined && { stream: json.stream === "true" }) },
    text: lenient.decode(bytes),
    isForm: true,
    fault: () => form.fault,
  };
}

function isUtf8(bytes: Uint8Array, type = ""): boolean {
  for (const [, charset] of type.matchAll(/charset\s*=\s*"?([^\s";,]*)/gi)) {
    if (!UTF8.test(charset)) return false;
  }
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
