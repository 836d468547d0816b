/** Accessors for untrusted JSON: a value of another type counts as absent. */
import { parseJson } from "../../base/json/mod.ts";
import { NAME_MAX } from "./limit.ts";

export { objectOf } from "../../base/object/mod.ts";

export type Json = Record<string, unknown>;

export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Non-empty string, truncated to `NAME_MAX` characters. */
export function nameOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, NAME_MAX) : undefined;
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Non-negative safe integer, such as a token count. */
export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses JSON; a text that cannot be parsed, or is nested too deep, stays a string. */
export function parseJsonOrText(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    return json;
  }
}
