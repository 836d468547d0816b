/**
 * Normalized security events: types, fields and families (docs/design/contracts/05-policy.md §5). Does not
 * load zod: import `schema.ts` to validate.
 */
export { catalogue, fieldsOfFamily, type Getter, getterOf, nearestField, valueAt } from "./catalogue.ts";
export type { CatalogueField } from "./field.ts";
export { containerName, type Finding, normalizeContext, processOf } from "./event.ts";
export * from "./event.ts";
export * from "./field.ts";
export { isMethodOverride, readTraceparent, traceIdOf } from "./header.ts";
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
