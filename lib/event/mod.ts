/**
 * Normalized security events: types, fields and families (docs/design/contracts/05-policy.md §5). Does not load zod: import `schema.ts` to
 * validate.
 */
export { catalogue, fieldsOfFamily, nearestField, valueAt } from "./catalogue.ts";
export type { CatalogueField } from "./field.ts";
export { normalizeContext } from "./context.ts";
export * from "./event.ts";
export * from "./family_name.ts";
export type { Finding } from "./finding.ts";
export { type Getter, getterOf } from "./getter.ts";
export { isMethodOverride } from "./method.ts";
export { providerOf, UNKNOWN_PROVIDER } from "./model_provider.ts";
export {
  fileNameOf,
  GUEST_WORKSPACE,
  type HttpPathClass,
  httpPathClass,
  NAMED_CLASSES,
  type NamedPaths,
  type PathClass,
  pathClass,
} from "./path.ts";
export { type ProcessNode, type ProcessTree, ProcessTreeBuilder } from "./process_tree.ts";
export { readTraceparent, traceIdOf } from "./trace.ts";
export { processOf } from "./process.ts";
