import { nearest } from "../../event/mod.ts";
import { type DetectionFamily, FAMILIES } from "../ir.ts";
import { entryOf, type TreeNode } from "../tree/mod.ts";
import { type Notes, shown } from "./notes.ts";

/** Families that categories of Sigma's own taxonomy come nearest to; a person has to map the fields. */
export const FOREIGN_CATEGORIES: ReadonlyMap<string, DetectionFamily> = new Map(Object.entries({
  process_creation: "process",
  process_termination: "process",
  dns: "dns",
  dns_query: "dns",
  proxy: "http",
  webserver: "http",
  network_connection: "http",
  file_event: "file",
  file_access: "file",
  file_change: "file",
  file_delete: "file",
  file_rename: "file",
}));

/** Who a rule is written for. */
export interface Logsource {
  product?: string;
  category?: string;
  /** set when both are what sbx takes */
  family?: DetectionFamily;
}

/** `product: sbx` and a family as category; everything else is said in `notes`. */
export function logsourceOf(node: TreeNode | undefined, line: number, notes: Notes): Logsource {
  if (node?.kind !== "map") {
    notes.refuse("logsource", node?.line ?? line, `logsource is missing; write product: sbx and a category`);
    return {};
  }
  for (const { key, line } of node.entries) {
    if (key === "product" || key === "category") continue;
    const code = key === "service" ? "logsource-service" : "unknown-key";
    notes.refuse(code, line, `logsource.${key} is not supported; remove it`);
  }
  const product = textOf(entryOf(node, "product")?.value);
  const category = textOf(entryOf(node, "category")?.value);
  const lineOf = (key: string) => entryOf(node, key)?.line ?? node.line;
  if (product !== "sbx") {
    notes.refuse(
      "logsource-product",
      lineOf("product"),
      product === undefined
        ? "logsource.product is missing; write product: sbx"
        : `logsource.product ${shown(product)}: fields of other products have no implicit mapping; ` +
          "write product: sbx and map the fields in field_mapping",
    );
  }
  const family = FAMILIES.find((family) => family === category);
  if (!family) notes.refuse("logsource-category", lineOf("category"), categoryFault(category));
  return {
    ...(product !== undefined && { product }),
    ...(category !== undefined && { category }),
    ...(family && product === "sbx" && { family }),
  };
}

function categoryFault(category: string | undefined): string {
  const known = FAMILIES.join(", ");
  if (category === undefined) return `logsource.category is missing; write one of ${known}`;
  const meant = FOREIGN_CATEGORIES.get(category) ?? nearest(category, FAMILIES);
  return `logsource.category ${shown(category)} is no family of events; ${
    meant ? `did you mean "${meant}"?` : `write one of ${known}`
  }`;
}

function textOf(node: TreeNode | undefined): string | undefined {
  return node?.kind === "scalar" && node.value !== null ? String(node.value) : undefined;
}
