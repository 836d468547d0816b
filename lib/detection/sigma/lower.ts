import { catalogue, nearest } from "../../event/mod.ts";
import { fieldFault } from "../field.ts";
import type { DetectionFamily, IrMatcher } from "../ir.ts";
import type { FieldMapping } from "../pack/schema.ts";
import type { Notes } from "./notes.ts";
import { shown } from "./notes.ts";
import type { SigmaRule } from "./rule.ts";
import { canHold } from "./value.ts";

/**
 * The matchers that a rule's fields become by an explicit mapping; undefined when one is not mapped, is mapped to what
 * its events do not have, or is compared with what its field never is.
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
    const known = catalogue.get(path)!;
    if (!values.map((value) => canHold(value, name, path, known, notes)).every(Boolean)) return undefined;
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
    notes.refuse(
      "field-unmapped",
      line,
      `${shown(field)} is not in field_mapping.${family}; ${
        near ? `did you mean ${shown(near)}?` : "map it there"
      }`,
    );
    return undefined;
  }
  const fault = fieldFault(family, fields[field]);
  if (fault === undefined) return fields[field];
  notes.refuse("field-unknown", line, `field_mapping.${family}.${field}: ${fault}`);
}
