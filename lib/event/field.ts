/** One field of an event. */

/** Field of an event. */
export interface CatalogueField {
  type: "string" | "number" | "bool" | "list" | "map";
  /** CEL type, such as `map<string, list<string>>` */
  cel: string;
  /** possible values of an enumerated field */
  values?: string[];
  description?: string;
}
