import type { Event } from "../event/mod.ts";

/** An event as a ledger lists it: with what was decided, when something was. */
export type LabEvent = Event & { decision?: string };
