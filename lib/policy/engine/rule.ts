/**
 * Rules as plain data (docs/design/contracts/05-policy.md §5), without zod at run time, and the built-in
 * ones.
 */
import type { Rule } from "../author/schema.ts";
import { ACTIONS, LAYERS, PRIORITY_DEFAULT } from "./rule_term.ts";
import { familyOf, GOVERNED_FAMILIES } from "../../event/mod.ts";
import { TYPES } from "./condition.ts";

export type { RewriteOp, Rule } from "../author/schema.ts";

/** Evaluation order: `corp` before `profile` by priority, `default` last; then restriction, then id. */
export function compareRules(a: Rule, b: Rule): number {
  return Number(a.layer === "default") - Number(b.layer === "default") ||
    a.priority - b.priority ||
    ACTIONS.indexOf(a.action) - ACTIONS.indexOf(b.action) ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : LAYERS.indexOf(a.layer) - LAYERS.indexOf(b.layer));
}

/**
 * The whole condition of a rule: one with a protocol means connections alone, and none whose
 * client is known to speak another.
 */
export function matchOf({ match, protocol }: Pick<Rule, "match" | "protocol">): string {
  if (protocol === undefined) return match;
  // On a line of its own: a comment may end the expression.
  return `(${match}\n) && http.request.method == "CONNECT" && !(common.labels.protocol != "${protocol}")`;
}

/** Label of a rule in messages: `file:line: layer rule "id"`. */
export function ruleLabel({ file, line, id, layer }: Rule): string {
  return `${file ? `${file}:${line ?? 1}: ` : ""}${layer} rule "${id}"`;
}

// Built-in rules, evaluated last.

/** `s` that a person has to read a commit: less than the 300 s of the call that waits for it. */
const SIGN_TIMEOUT = 240;

/** Match on event types instead of fields, so that it covers events without their family's object. */
const matchFamily = (family: string) => {
  const types = TYPES.filter((type) => familyOf(type) === family);
  return `common.event_type in [${types.map((type) => `"${type}"`).join(", ")}]`;
};

const block = (id: string, match: string, name: string, reason: string): Rule => ({
  id,
  layer: "default",
  name,
  action: "block",
  match,
  enabled: true,
  priority: PRIORITY_DEFAULT.default,
  reason,
});

const PRIVATE = [
  "private, loopback, link-local and metadata addresses",
  "the address is private, loopback, link-local or a metadata service",
] as const;

/**
 * OpenAI's Responses and Realtime APIs, whose messages are decided on one by one
 * (lib/network/model/socket.ts).
 */
const READ_SOCKET =
  '(in_domain(http.request.host, "api.openai.com") || http.request.host == "chatgpt.com") && ' +
  'http.request.path.matches("^/(v1|backend-api/codex)/(responses|realtime)$")';

/** Built-in rules; a `[default.<id>]` in a rule file replaces the one with the same id. */
export const DEFAULT_RULES: readonly Rule[] = [
  block("block-private-http", "is_private_host(http.request.host)", ...PRIVATE),
  block("block-private-dns", "dns.response.answers.exists(answer, is_private_host(answer))", ...PRIVATE),
  block(
    "block-raw-tcp",
    'http.request.method == "CONNECT" && http.request.scheme == "tcp"',
    "TCP that is neither HTTP nor TLS",
    "traffic other than HTTP and TLS cannot be inspected, so a rule must allow it",
  ),
  block(
    "block-ssh-command",
    'http.request.method == "CONNECT" && http.request.scheme == "ssh"',
    "commands, files and shells over SSH",
    "over SSH only git passes without a rule that names the command (http.request.ssh)",
  ),
  block(
    "block-model-websocket",
    '"upgrade" in http.request.headers && is_model_host(http.request.host) && !(' +
      READ_SOCKET + ")",
    "WebSockets at hosts of model providers whose messages are not read",
    "model calls in this WebSocket cannot be decided on; use HTTPS, which clients fall back to",
  ),
  {
    ...block(
      "ask-mcp-elicitation",
      'mcp.request.method == "elicitation/create"',
      "questions of MCP servers",
      "an MCP server asks a person; allowed, the program that called it answers, or the form's defaults do",
    ),
    action: "ask",
  },
  block(
    "block-mcp-sampling",
    'mcp.request.method == "sampling/createMessage"',
    "model calls for MCP servers",
    "an MCP server wants the agent's model to answer it, so a rule must allow it",
  ),
  {
    ...block(
      "ask-sign",
      matchFamily("sign"),
      "signatures of commits and tags",
      "a program of the VM wants your key to sign this commit or tag; its files stay in the VM until you look at them",
    ),
    action: "ask",
    ask_timeout: SIGN_TIMEOUT,
  },
  ...GOVERNED_FAMILIES.map((family): Rule => ({
    id: `allow-${family}`,
    layer: "default",
    name: `${family} events not matched by any rule`,
    action: "allow",
    match: matchFamily(family),
    enabled: true,
    priority: PRIORITY_DEFAULT.default,
  })),
];
