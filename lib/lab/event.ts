import type { Event } from "../event/mod.ts";

/** Event as a ledger lists it, with its decision, if any. */
export type LabEvent = Event & { decision?: string };
