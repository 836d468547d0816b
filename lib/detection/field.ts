import { nearest, suggestion } from "../base/text/mod.ts";
import { catalogue, fieldsOfFamily } from "../event/mod.ts";
import type { DetectionFamily } from "./ir/ir.ts";

/** Fields with lower-case values only: a rule value with an upper-case letter would never match. */
export const LOWER_CASE: readonly string[] = ["http.request.host", "dns.request.qname", "file.activity.ext"];

/** Fields that are never empty: a rule value without a character would never match. */
export const NEVER_EMPTY: readonly string[] = [
  "common.event_id",
  "common.session_id",
  "common.vm_id",
  "common.profile_id",
  "http.request.scheme",
  "http.request.host",
  "http.request.url",
  "dns.request.qtype",
  "dns.request.transport",
  "file.activity.path",
];

/** Checks that rules of a family can test a field. @returns the reason they cannot, or `undefined` */
export function checkField(family: DetectionFamily, path: string): string | undefined {
  const field = catalogue.get(path);
  const isInFamily = path.startsWith(`${family}.`) || path.startsWith("common.");
  if (field && !isInFamily) {
    return `${path} belongs to another family; ${family} rules can use ${family}.* and common.*`;
  }
  if (!field) {
    const near = nearest(path, fieldsOfFamily(family));
    return `${family} events have no field ${path}${
      near ? `; ${suggestion(near)}` : "; see docs/reference/event-fields.md for all fields"
    }`;
  }
  if (field.type === "map" || field.type === "list") {
    return `${path} is a ${field.type}; use a field with a single value`;
  }
}
