/** Forms of servers (MCP, "Elicitation"). */
import { isObject, objectOf } from "../../base/object/mod.ts";
import type { Params } from "./rpc.ts";

/**
 * A form with the values that its schema proposes.
 *
 * @returns `undefined` when a required field has no default, or the request is no form
 */
export function defaultsOf({ mode = "form", requestedSchema }: Params): Params | undefined {
  if (mode !== "form" || !isObject(requestedSchema)) return undefined;
  const { properties, required } = requestedSchema;
  const values: Params = {};
  for (const [name, field] of Object.entries(objectOf(properties))) {
    if (isObject(field) && field.default !== undefined) values[name] = field.default;
  }
  const isComplete = !Array.isArray(required) ||
    required.every((name) => Object.hasOwn(values, String(name)));
  return isComplete ? values : undefined;
}
