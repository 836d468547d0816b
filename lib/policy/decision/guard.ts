/** Guards: hard-coded blocks that no rule can allow, `guard-…` in decision records (docs/network.md). */

/** Remedies for guards whose records have none. */
const REMEDIES: Record<string, string> = {
  "guard-connections": "close unused connections and try again",
  "guard-credential":
    "sbx credentials list shows the refs and their hosts; docs/credentials.md explains where a secret may be sent",
  "guard-malformed-tls": "use TLS on this port, with the host name in the ClientHello",
};

/** True for the rule id of a guard. */
export function isGuard(ruleId: string): boolean {
  return ruleId.startsWith("guard-");
}

/** Remedy for a block by a guard. */
export function guardRemedy(ruleId: string): string {
  return REMEDIES[ruleId] ?? "no rule can allow it; docs/network.md lists the guards and their reasons";
}
