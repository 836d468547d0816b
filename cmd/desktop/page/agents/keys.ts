/** Keys that an agent can work with. */
import type { Agent, CredentialView } from "../../api/routes.ts";

/** Stands for an agent without a provider, which needs no key. */
export const NO_KEY = "none";

/**
 * Usable credentials of the agent's provider, the last one added first; one that
 * needs none has {@linkcode NO_KEY}.
 */
export function keysFor(
  { provider, reads }: Pick<Agent, "provider" | "reads">,
  credentials: CredentialView[],
): (CredentialView | typeof NO_KEY)[] {
  if (provider === undefined) return [NO_KEY];
  return credentials.filter((each) =>
    each.provider === provider && each.source === "added" && !each.decoy && !each.revoked_at &&
    reads.includes(each.kind)
  ).toReversed();
}
