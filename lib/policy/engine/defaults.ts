/** The rules that are there without any file (contracts.md §5): they come last. */
import { familyOf } from "../../event/mod.ts";
import { TYPES } from "./condition.ts";
import { PRIORITY_DEFAULT, type Rule } from "./rule.ts";

const FAMILIES = ["http", "dns", "mcp", "model", "file", "process"];

/** Written over event types, so that they are there for events that have no object of their family too. */
const allOf = (family: string) => {
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

/** Built-in rules; a `[default.<id>]` of a rule file with the same id replaces one. */
export const DEFAULT_RULES: readonly Rule[] = [
  block("block-private-http", "is_private_host(http.request.host)", ...PRIVATE),
  block("block-private-dns", "dns.response.answers.exists(answer, is_private_host(answer))", ...PRIVATE),
  block(
    "block-raw-tcp",
    'http.request.method == "CONNECT" && http.request.scheme == "tcp"',
    "TCP that is neither HTTP nor TLS",
    "what is neither HTTP nor TLS cannot be inspected, so it needs a rule that allows it",
  ),
  ...FAMILIES.map((family): Rule => ({
    id: `allow-${family}`,
    layer: "default",
    name: `${family} events that no rule speaks of`,
    action: "allow",
    match: allOf(family),
    enabled: true,
    priority: PRIORITY_DEFAULT.default,
  })),
];
