/** What code refuses by itself, so that no rule can let it go: `guard-…` in decision records (docs/network.md). */

/** What helps, where the record itself does not say. */
const REMEDIES: Record<string, string> = {
  "guard-connections": "close connections that are not needed any more, and try again",
  "guard-credential":
    "sbx credentials list shows the refs and their hosts; docs/credentials.md says where a secret travels",
  "guard-malformed-tls": "speak TLS on this port, with a ClientHello that names the host",
};

export function isGuard(ruleId: string): boolean {
  return ruleId.startsWith("guard-");
}

/** What to do about a refusal of a guard. */
export function guardRemedy(ruleId: string): string {
  return REMEDIES[ruleId] ?? "no rule can allow it; docs/network.md says what is refused, and why";
}
