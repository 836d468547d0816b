import { timeLimit } from "../../base/time/mod.ts";

/** Longest check, in `ms` (docs/contracts.md §11). */
export const PROBE_MS = timeLimit(2000);
