/** Families and fields of events, without zod. */

/** Field of an event. */
export interface CatalogueField {
  type: "string" | "number" | "bool" | "list" | "map";
  /** CEL type, such as `map<string, list<string>>` */
  cel: string;
  /** possible values of an enumerated field */
  values?: string[];
  description?: string;
}

/** Families that rules and detections cover. */
export const GOVERNED_FAMILIES = ["http", "dns", "db", "sign", "mcp", "model", "file", "process"] as const;

/** Every family; `credential` events are the credential broker's own records. */
export const EVENT_FAMILIES = [...GOVERNED_FAMILIES, "credential"] as const;

/** The part of an event type before the dot. */
export type EventFamily = typeof EVENT_FAMILIES[number];
