import type { Event } from "../event/mod.ts";

/** Event as a ledger lists it, with its decision, if any, and the rule or guard that made it. */
export type LabEvent = Event & { decision?: string; rule_id?: string };
