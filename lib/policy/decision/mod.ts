/** Decision records and their words (docs/design/contracts/05-policy.md §5). Loads no rule engine. */
export * from "./decision.ts";
export { findingDecision } from "./finding.ts";
