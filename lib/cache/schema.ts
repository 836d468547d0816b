/** Schema of `[cache]` in a profile (docs/design/contracts/04-profiles.md §4, "Cache"). */
import { z } from "zod";
import { canonicalHost } from "../base/address/mod.ts";
import { TOOLS } from "./registry.ts";

export { SCOPE } from "./store.ts";

/** Most hosts beyond a registry's own. */
const HOSTS_MAX = 32;

const host = z.string().max(253).refine(
  (name) => canonicalHost(name) === name,
  "must be a host in lower case, without a port",
);
const mirrors = z.union([z.boolean(), z.array(host).min(1).max(HOSTS_MAX)]);

/** Tools whose downloads are kept: `true`, or hosts beside those of the registry. */
export const CacheTable = z.strictObject({
  /** VMs that share the artefacts: of the whole home, or of the profile */
  scope: z.enum(["home", "profile"]).default("home"),
  ...Object.fromEntries(
    [...TOOLS].map(([tool, each]) => [tool, (each.mirrors ? mirrors : z.boolean()).default(false)]),
  ),
}) as unknown as z.ZodType<CacheTable>;
export interface CacheTable {
  scope: "home" | "profile";
  [tool: string]: boolean | string[] | "home" | "profile";
}

/** The registries of a table, each with hosts beyond its own. */
export function registriesOf({ scope: _, ...tools }: CacheTable): Record<string, string[]> {
  const registries: Record<string, string[]> = {};
  for (const [tool, value] of Object.entries(tools)) {
    if (value === false) continue;
    const { registry } = TOOLS.get(tool)!;
    registries[registry] = [...registries[registry] ?? [], ...Array.isArray(value) ? value : []];
  }
  return registries;
}
