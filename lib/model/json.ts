/** Values of JSON that anyone may have written: what is not of the type that is asked for is not there. */
import { NAME_MAX } from "./limit.ts";

export type Json = Record<string, unknown>;

export function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Json : {};
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A short text; `undefined` for what is none. */
export function name(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, NAME_MAX) : undefined;
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A count of tokens. */
export function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** JSON text as its value, or as it is when it is none. */
export function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}
