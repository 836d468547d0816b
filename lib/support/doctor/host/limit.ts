import { timeLimit } from "../../../base/time/mod.ts";

/** Longest check, in `ms` (docs/design/contracts/11-debug-report.md §11). */
export const PROBE_MS = timeLimit(2000);
