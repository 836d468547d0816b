/** Detection packs: read from files or data, and validated. Loads zod and the YAML parser. */
export { documentOf, type PackDocument, parseDocument, type Place } from "./document.ts";
export {
  checkPack,
  decodeUtf8,
  type Pack,
  packOf,
  type PackReadResult,
  type PackValidation,
  readBytes,
  readPack,
  readPackData,
  readSource,
  type SourceText,
  validationOf,
} from "./pack.ts";
export {
  type FieldMapping,
  MappingSchema,
  PACK_MAX,
  PACK_SCHEMA,
  PackSchema,
  RULES_MAX,
  type Source,
  SOURCE_ID,
} from "./schema.ts";
