import { catalogue, fieldsOfFamily, nearest } from "../event/mod.ts";
import type { DetectionFamily } from "./ir.ts";

/** Fields whose values are always lower case: anything else would never match. */
export const LOWER_CASE: readonly string[] = ["http.request.host", "dns.request.qname", "file.activity.ext"];

/** Why rules of a family cannot look at a field; undefined when they can. */
export function fieldFault(family: DetectionFamily, path: string): string | undefined {
  const field = catalogue.get(path);
  const own = path.startsWith(`${family}.`) || path.startsWith("common.");
  if (field && !own) {
    return `${path} is a field of another family; ${family} events have ${family}.* and common.*`;
  }
  if (!field) {
    const near = nearest(path, fieldsOfFamily(family));
    return `no ${family} event has a field ${path}${
      near ? `; did you mean ${near}?` : "; docs/reference/event-fields.md lists those there are"
    }`;
  }
  if (field.type === "map" || field.type === "list") {
    return `${path} is a ${field.type}; detections compare single values`;
  }
}
