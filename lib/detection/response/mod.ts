/** Answers to findings: what corp, a profile and sbx itself demand, and what holds a VM back. */
export {
  actionsIn,
  type Demand,
  demandsOf,
  holdLine,
  isStill,
  requireLiftable,
  type ResponseAction,
  type ResponseTerms,
} from "./response.ts";
export type { Hold, ResponseTable } from "./schema.ts";
