/** Words and limits of rules (docs/design/contracts/05-policy.md §5). */

export const ACTIONS = ["block", "ask", "rewrite", "allow", "observe"] as const;

/** Actions in order of restriction: at the same priority the earlier one wins. `observe` decides nothing. */
export type Action = typeof ACTIONS[number];

export const LAYERS = ["corp", "profile", "default"] as const;

/** Author of a rule, in order of trust. */
export type Layer = typeof LAYERS[number];

export const DETECTION_LEVELS = ["informational", "low", "medium", "high", "critical"] as const;

/** Level of the findings of a rule that only observes, where it names none. */
export const OBSERVE_LEVEL: typeof DETECTION_LEVELS[number] = "medium";

/** Protocols that a rule can hold a connection to (docs/design/contracts/05-policy.md §5, "Protocols"). */
export const PROTOCOLS = [
  "amqp",
  "git",
  "imap",
  "ldap",
  "mongodb",
  "mqtt",
  "mysql",
  "nats",
  "pop3",
  "postgres",
  "redis",
  "smtp",
  "ssh",
  "tls",
] as const;

export type Protocol = typeof PROTOCOLS[number];

export const PRIORITY_MIN = -1000;

export const PRIORITY_MAX = 1000;

/** Default priority by layer (docs/design/contracts/05-policy.md §5). */
export const PRIORITY_DEFAULT: Record<Layer, number> = { corp: -10, profile: 10, default: 0 };

/** Maximum length of a match expression, in characters. */
export const MATCH_MAX = 64 * 1024;

/** Maximum rules of one policy. */
export const RULES_MAX = 100_000;

/**
 * Most rules of project files that a VM takes (docs/design/contracts/14-limits.md §14), and
 * most characters of an id there.
 */
export const NARROWING_MAX = 64, NARROWING_ID_MAX = 100;
