/** Checks of values of unknown types. */

/** True for objects other than null and arrays. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object itself, and an empty one for anything else: a member of another type counts as absent. */
export function objectOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}
