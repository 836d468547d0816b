import { compilePolicy } from "./compile_policy.ts";
import type { Policy } from "./policy.ts";
import type { Rule } from "./rule.ts";

/** Rules by the layer that brought them. */
export interface RuleLayers {
  corp: { rules: readonly Rule[] };
  profile: { rules: readonly Rule[] };
}

/** Compiles the rules of both layers; a default rule of corp replaces the profile's with the same id. @throws {SbxError} `policy.invalid` */
export function compileLayers({ corp, profile }: RuleLayers): Policy {
  const corpDefaults = new Set(corp.rules.filter(({ layer }) => layer === "default").map(({ id }) => id));
  const profileRules = profile.rules.filter(({ layer, id }) => layer !== "default" || !corpDefaults.has(id));
  return compilePolicy([...corp.rules, ...profileRules], corp.rules);
}
