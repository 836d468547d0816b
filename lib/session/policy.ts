import { compilePolicy, type Policy } from "../policy/mod.ts";
import type { Contract } from "./files/contract.ts";

/** Rules of both layers. A default of corp's stands in for the profile's of the same id. @throws {SbxError} `policy.invalid` */
export function policyOf({ corp, profile }: Pick<Contract, "corp" | "profile">): Policy {
  const ofCorp = new Set(corp.rules.filter(({ layer }) => layer === "default").map(({ id }) => id));
  const ofProfile = profile.rules.filter(({ layer, id }) => layer !== "default" || !ofCorp.has(id));
  return compilePolicy([...corp.rules, ...ofProfile]);
}
