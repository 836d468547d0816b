/** The normalized security event (contracts.md §5). Nothing here loads zod: import `schema.ts` to validate. */
export { canonicalJson } from "./canonical.ts";
export {
  catalogue,
  type CatalogueField,
  fieldsOfFamily,
  nearest,
  nearestField,
  valueAt,
} from "./catalogue.ts";
export * from "./event.ts";
export { GUEST_WORKSPACE, type HttpPathClass, httpPathClass, type PathClass, pathClass } from "./path.ts";
