import { nearest } from "../../base/text/mod.ts";
import { EVENT_FAMILIES } from "../../event/mod.ts";
import type { DetectionFamily } from "../ir/ir.ts";
import { entryOf, type TreeNode } from "../tree/mod.ts";
import { type Notes, quote } from "./notes.ts";

/** Nearest event family of each category in Sigma's taxonomy; the fields still need a mapping. */
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

/** Product and category of a rule. */
export interface Logsource {
  product?: string;
  category?: string;
  /** set if product and category are supported */
  family?: DetectionFamily;
}

/** Reads the logsource: `product: sbx` and a family as category; anything else is reported to `notes`. */
export function logsourceOf(node: TreeNode | undefined, line: number, notes: Notes): Logsource {
  if (node?.kind !== "map") {
    notes.reject(
      "logsource",
      node?.line ?? line,
      `logsource is missing; add one with product: sbx and a category`,
    );
    return {};
  }
  for (const { key, line } of node.entries) {
    if (key === "product" || key === "category") continue;
    const code = key === "service" ? "logsource-service" : "unknown-key";
    notes.reject(code, line, `logsource.${key} is not supported; remove it`);
  }
  const product = textOf(entryOf(node, "product")?.value);
  const category = textOf(entryOf(node, "category")?.value);
  const lineOf = (key: string) => entryOf(node, key)?.line ?? node.line;
  if (product !== "sbx") {
    notes.reject(
      "logsource-product",
      lineOf("product"),
      product === undefined
        ? "logsource.product is missing; add product: sbx"
        : `logsource.product ${quote(product)} is not supported; ` +
          "write product: sbx and map its fields in field_mapping",
    );
  }
  const family = EVENT_FAMILIES.find((family) => family === category);
  if (!family) notes.reject("logsource-category", lineOf("category"), describeCategoryFault(category));
  return {
    ...(product !== undefined && { product }),
    ...(category !== undefined && { category }),
    ...(family && product === "sbx" && { family }),
  };
}

function describeCategoryFault(category: string | undefined): string {
  const families = EVENT_FAMILIES.join(", ");
  if (category === undefined) return `logsource.category is missing; add one of ${families}`;
  const suggestion = FOREIGN_CATEGORIES.get(category) ?? nearest(category, EVENT_FAMILIES);
  return `logsource.category ${quote(category)} is not an event family; ${
    suggestion ? `did you mean "${suggestion}"?` : `write one of ${families}`
  }`;
}

function textOf(node: TreeNode | undefined): string | undefined {
  return node?.kind === "scalar" && node.value !== null ? String(node.value) : undefined;
}
