/** Compiler of a single detection in a request: an IR rule, or Sigma with a field mapping. */
import { compileOrThrow } from "../compile/mod.ts";
import { type DetectionIr, IR_SCHEMA } from "../ir/ir.ts";
import { PACK_SCHEMA, packOf } from "../pack/mod.ts";
import type { RuleInput } from "./schema.ts";

/** Pack id of rules outside any pack. */
export const RUNTIME_PACK = "runtime";

/** Compiles one detection. @throws {SbxError} `detection.invalid`: with every problem */
export function irOfRule(input: RuleInput): Promise<DetectionIr> {
  const pack = { pack_id: RUNTIME_PACK, pack_version: "1", pack_status: "active", owner: "user" } as const;
  if (!("sigma" in input)) return Promise.resolve({ schema: IR_SCHEMA, ...pack, rules: [input] });
  const { id, sigma, field_mapping } = input;
  return compileOrThrow(packOf({
    schema: PACK_SCHEMA,
    id: RUNTIME_PACK,
    version: pack.pack_version,
    status: pack.pack_status,
    owner: pack.owner,
    field_mapping,
    sources: [{ id, type: "sigma", format: "yaml", content: sigma }],
  }));
}
