import { nearest, suggestion } from "../../base/text/mod.ts";
import { catalogue } from "../../event/mod.ts";
import { checkField } from "../field.ts";
import type { DetectionFamily, IrMatcher } from "../ir/ir.ts";
import type { FieldMapping } from "../pack/schema.ts";
import { type Notes, quote } from "./notes.ts";
import type { SigmaRule } from "./rule.ts";
import { canHold } from "./value.ts";

/**
 * Compiles a rule's fields to matchers by the explicit mapping.
 *
 * @returns `undefined` if a field is unmapped, mapped to an invalid path, or
 * compared with an impossible value
 */
export function matchersOf(
  { fields, logsource }: SigmaRule,
  mapping: FieldMapping,
  notes: Notes,
): IrMatcher[] | undefined {
  const family = logsource.family!;
  const matchers = fields.map(({ name, line, values }): IrMatcher | undefined => {
    const path = pathOf(name, line, family, mapping, notes);
    if (path === undefined) return undefined;
    const definition = catalogue.get(path)!;
    if (!values.map((value) => canHold(value, name, path, definition, notes)).every(Boolean)) {
      return undefined;
    }
    return {
      field_path: path,
      operator: "equals_any",
      values: [...new Set(values.map(({ value }) => value))],
      sigma_field: name,
    };
  });
  return matchers.every((matcher) => matcher !== undefined) ? matchers : undefined;
}

function pathOf(
  field: string,
  line: number,
  family: DetectionFamily,
  mapping: FieldMapping,
  notes: Notes,
): string | undefined {
  const fields = mapping[family] ?? {};
  if (!Object.hasOwn(fields, field)) {
    const near = nearest(field, Object.keys(fields));
    notes.reject(
      "field-unmapped",
      line,
      `${quote(field)} is not in field_mapping.${family}; ${near ? suggestion(near) : "add it there"}`,
    );
    return undefined;
  }
  const fault = checkField(family, fields[field]);
  if (fault === undefined) return fields[field];
  notes.reject("field-unknown", line, `field_mapping.${family}.${field}: ${fault}`);
}
