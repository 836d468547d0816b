import { catalogue, type Event, familyOf } from "../../event/mod.ts";

/**
 * The shape of an event without the guest's content: texts, lists and maps are empty. Replaces an event that
 * cannot be recorded as it is, or whose secrets cannot be found.
 */
export function outlineOf(event: Event): Event {
  const { common, schema_version } = event;
  const family = familyOf(common.event_type);
  return { common, [family]: outline(event[family], family), schema_version } as Event;
}

function outline(value: unknown, path: string): unknown {
  if (typeof value === "string") return "";
  if (Array.isArray(value)) return [];
  if (value === null || typeof value !== "object") return value;
  if (catalogue.has(path)) return {};
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => [key, outline(field, `${path}.${key}`)]),
  );
}
